"""Consumer groups: the list, one of them with its lag as it moves, and moving one to a time."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ...client.admin import OffsetMove
from ...client.admin.offset_reset import TO_THE_END
from ...remoting.errors import BrokerError, ConsumerNotOnline, RemotingError, RocketMQError
from ..cluster import ClusterView, GroupLook
from ..door import Person
from ..model.groups import (
    group_troubles,
    groups_of_topics,
    member_rows,
    queue_rows,
    rows_of,
)
from ..model.paging import page_of
from ..model.texts import parse_moment
from ..model.topics import kind_of
from ..site import BadFormError, Form, Site
from .overview import soon

ROWS: Final = 50


class PartlyMoved(RocketMQError):
    """It failed after some queues of the group, perhaps: the text says what to do."""


def add_to(site: Site) -> None:
    async def preview(request: Request, person: Person, form: Form) -> Response:
        group, topic, at = reset_of(form)
        moves = await person.view.admin.move_offsets(group, topic, at, dry_run=True)
        return site.html(
            request, person, "group_reset.html", group=group, topic=topic, at=at, moves=moves,
            time=form.text("time"), outcome="",
        )  # fmt: skip

    async def apply(request: Request, person: Person, form: Form) -> Response:
        group, topic, at = reset_of(form)
        doing = reset(person.view, group, topic, at)
        done, refused = await site.noted(
            request, person, "reset-offsets", f"{group}@{topic}@{at}", doing
        )
        person.view.group.of(group).forget()
        how, moves = done or ("", [])
        return site.html(
            request, person, "group_reset.html", group=group, topic=topic, at=at, moves=moves,
            time=form.text("time"), outcome=refused or how,
        )  # fmt: skip

    site.live_page("/groups", "groups", list_facts, "rows")
    site.live_page("/group", "group", group_facts, "age", "troubles", "queues", "members")
    site.page("/group/reset", preview)
    site.change("/group/reset", apply)


async def list_facts(view: ClusterView, form: Form) -> dict[str, Any]:
    """What the list shows."""
    topics = await view.topics.get()
    lags = await soon(view.lags)
    text = form.text("q")[:200]
    rows = [
        row
        for row in rows_of(groups_of_topics(topics.value), lags.known if lags else None)
        if text.lower() in row.name.lower()
    ]
    return {
        "page": page_of(rows, form.number("page", 1), ROWS),
        "q": text,
        "lags": lags,
        "most": max((row.lag or 0 for row in rows), default=0),
        "deserted": set(lags.deserted) if lags else set(),
        "at_ms": topics.at_ms,
        "problem": topics.problem,
    }


async def group_facts(view: ClusterView, form: Form) -> dict[str, Any]:
    """What the page of one group shows. Raises ``BadFormError``, ``NoRouteError``."""
    group = form.needed("name")
    dated = await view.group.of(group).get()
    look: GroupLook = dated.value
    members = member_rows(look.connection, look.infos, look.member_problems)
    queues = queue_rows(look.stats, look.infos)
    return {
        "group": group,
        "look": look,
        "at_ms": dated.at_ms,
        "problem": dated.problem,
        "members": members,
        "queues": queues,
        "lag": sum(max(0, queue.lag) for queue in queues),
        "topics": sorted(
            {queue.queue.topic for queue in queues}, key=lambda name: (bool(kind_of(name)), name)
        ),  # its retry topic last
        "troubles": group_troubles(group, queues, members, look.configs),
        "history": look.history,
        "point": look.history.newest(),
    }


# --- reset
# --------------------------------------------------------------------------------------------------


def reset_of(form: Form) -> tuple[str, str, int]:
    """Group, topic, ms since 1970. Raises ``BadFormError``."""
    group, topic, text = form.needed("name"), form.needed("topic"), form.needed("time")
    if text == "end":
        return group, topic, TO_THE_END
    try:
        return group, topic, parse_moment(text)
    except ValueError as error:
        raise BadFormError(str(error)) from None


async def reset(
    view: ClusterView, group: str, topic: str, at_ms: int
) -> tuple[str, list[OffsetMove]]:
    """Members that are online are told; where nobody is, offsets are moved."""
    before = await view.admin.move_offsets(group, topic, at_ms, dry_run=True)
    try:
        moved = await view.admin.reset_offsets(group, topic, at_ms)
    except ConsumerNotOnline:
        return (
            "Nobody of the group is online; its offsets were moved.",
            await _moved(view, group, topic, at_ms),
        )
    return (
        "The members were told; each goes on there and commits it within about ten seconds.",
        [move._replace(rollback_offset=moved.get(move.queue, move.rollback_offset))
         for move in before],
    )  # fmt: skip


async def _moved(view: ClusterView, group: str, topic: str, at_ms: int) -> list[OffsetMove]:
    try:
        return await view.admin.move_offsets(group, topic, at_ms)
    except (BrokerError, RemotingError) as error:
        raise PartlyMoved(
            f"{error}; some queues may have been moved before: the preview shows where the group "
            "stands, moving it once more moves all of them"
        ) from error
