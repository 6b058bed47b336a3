"""Topics: the list, one of them, and changing its queues and permission."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from ...remoting.protocol.bodies.stats import BrokerStatsItem
from ..cluster import ClusterView
from ..door import Person
from ..model.topics import (
    PERMISSIONS,
    Change,
    changes_of,
    kind_of,
    permission,
    search,
    time_axis,
)
from ..site import BadFormError, Form, Site

ROWS: Final = 50
KINDS: Final = {"": "of users", "retry": "retry", "dead letters": "dead letters",
                "system": "of the system", "all": "all"}  # fmt: skip


def add_to(site: Site) -> None:
    async def preview(request: Request, person: Person, form: Form) -> Response:
        changes = await wished(person.view, form)
        return site.html(
            request, person, "topic_change.html", topic=form.needed("name"), changes=changes,
            outcomes={}, **_wish(form),
        )  # fmt: skip

    async def apply(request: Request, person: Person, form: Form) -> Response:
        topic, outcomes = form.needed("name"), {}
        changes = await wished(person.view, form)
        for change in changes:
            if not change.differs:
                continue
            what = f"{topic}@{change.address}:read={change.after.read_queue_nums}" + (
                f",write={change.after.write_queue_nums},perm={change.after.perm}"
            )
            doing = person.view.admin.create_topic_on(change.address, change.after)
            _, refused = await site.noted(request, person, "update-topic", what, doing)
            outcomes[change.address] = refused or "done"
        person.view.topic.of(topic).forget()
        return site.html(
            request, person, "topic_change.html", topic=topic, changes=changes,
            outcomes=outcomes, **_wish(form),
        )  # fmt: skip

    site.live_page("/topics", "topics", list_facts, "rows")
    site.live_page("/topic", "topic", topic_facts, "age", "queues", "groups", "producers")
    site.page("/topic/change", preview)
    site.change("/topic/change", apply)


async def list_facts(view: ClusterView, form: Form) -> dict[str, Any]:
    """What the list shows: rates only of the topics that are on this page of it."""
    topics, own = await asyncio.gather(view.topics.get(), view.own_topics.get())
    text, kind = form.text("q")[:200], form.text("kind")
    kind = kind if kind in KINDS else ""
    page = search(topics.value, text, kind, form.number("page", 1), ROWS, own.value)
    return {
        "page": page,
        "q": text,
        "kind": kind,
        "kinds": KINDS,
        "kind_of": kind_of,
        "own": own.value,
        "rates": rates_of(view, page.rows),
        "at_ms": topics.at_ms,  # shown with a problem
        "problem": topics.problem,
    }


def rates_of(view: ClusterView, names: Iterable[str]) -> dict[str, BrokerStatsItem]:
    """Of the topics that have some. What is not there comes live."""
    found = {name: view.put_rate.of(name).now() for name in names}
    return {
        name: dated.value
        for name, dated in found.items()
        if dated is not None and dated.value is not None
    }


async def topic_facts(view: ClusterView, form: Form) -> dict[str, Any]:
    """What the page of one topic shows. Raises ``BadFormError``, ``NoRouteError``."""
    topic = form.needed("name")
    look = await view.topic.of(topic).get()
    return {
        "topic": topic,
        "kind": kind_of(topic),
        "look": look.value,
        "at_ms": look.at_ms,
        "problem": look.problem,
        "axis": time_axis(look.value.queues),
        "stored": sum(row.stored for row in look.value.queues),
        "rate": rates_of(view, [topic]).get(topic),
        "permission": permission,
        "permissions": PERMISSIONS,
    }


async def wished(view: ClusterView, form: Form) -> list[Change]:
    """What would be sent to whom, from what the cluster says now. Raises ``BadFormError``."""
    topic = form.needed("name")
    view.topic.of(topic).forget()
    look = await view.topic.of(topic).get()
    masters = [row.master for row in look.value.routes if row.master is not None]
    told, _ = await view.ask_each(partial(view.admin.topic_config, topic=topic), masters)
    configs = {address: config for address, config in told.items() if config is not None}
    wish = _wish(form)
    try:
        return changes_of(topic, look.value.routes, configs, **wish)
    except ValueError as error:
        raise BadFormError(str(error)) from None


class _Wish(TypedDict):
    read_queues: int
    write_queues: int
    perm: int | None
    """``None``: as it is."""


def _wish(form: Form) -> _Wish:
    return {
        "read_queues": form.number("read_queues"),
        "write_queues": form.number("write_queues"),
        "perm": form.number("perm") if form.text("perm") else None,
    }
