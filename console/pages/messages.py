"""Messages: looked for by key, id and time; one with its body, properties and journey."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ...client.errors import ConfigError, NoRouteError
from ...remoting.errors import QueryNotFound, RocketMQError
from ...remoting.protocol.message.compression import CompressionError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from ..cluster import ClusterView
from ..door import Person
from ..lookups import ALL_TIME, by_id, by_key, by_time, journey_of
from ..model.bodies import Body, look_at
from ..model.journey import bars_of, group_of, origin_topic, spans_of, steps_of
from ..model.texts import parse_moment
from ..rendering import link
from ..site import BadFormError, Form, Site

WAYS: Final = {"key": "by key", "id": "by message id", "time": "by time"}
HOUR_MS: Final = 3_600_000


def add_to(site: Site) -> None:
    async def show_search(request: Request, person: Person, form: Form) -> Response:
        found, told = await search(person.view, form)
        return site.html(
            request, person, "messages.html", found=found, told=told, ways=WAYS,
            way=form.text("way", "key"), form=form, message_link=message_link,
        )  # fmt: skip

    async def show(request: Request, person: Person, form: Form) -> Response:
        message = await one(person.view, form)
        found = await message_facts(person.view, message)
        return site.html(request, person, "message.html", **found)

    site.page("/messages", show_search)
    site.page("/message", show)


def message_link(message: MessageExt) -> str:
    """The page of this very copy."""
    return link("/message", id=message.offset_msg_id)


async def search(view: ClusterView, form: Form) -> tuple[list[MessageExt] | None, list[str]]:
    """``None``: nothing was looked for yet. Raises ``BadFormError``, ``NoRouteError``."""
    topic, text = form.text("topic"), form.text("text")
    match form.text("way", "key"):
        case "key" if text:
            if not topic:
                raise BadFormError("a key is looked for in a topic: name it")
            return await _or_none(by_key(view, topic, text, *range_of(view, form, None)))
        case "id" if text:
            return await _or_none(by_id(view, topic, text))
        case "time" if topic:
            return await by_time(view, topic, *range_of(view, form, HOUR_MS))
        case _:
            return None, []


async def _or_none(
    looking: Awaitable[tuple[list[MessageExt], list[str]]],
) -> tuple[list[MessageExt], list[str]]:
    """A topic that is not there is worth a word, and no failure."""
    try:
        return await looking
    except (NoRouteError, ConfigError, QueryNotFound) as error:
        return [], [str(error)]


def range_of(view: ClusterView, form: Form, back_ms: int | None) -> tuple[int, int]:
    """Begin and end, ms; where the form does not say, from ``back_ms`` ago until now, or all time
    (``None``). Raises ``BadFormError``."""
    now = view.clock.time_ms()
    since, until = ALL_TIME if back_ms is None else (now - back_ms, now)
    try:
        begin = parse_moment(form.text("begin")) if form.text("begin") else since
        end = parse_moment(form.text("end")) if form.text("end") else until
    except ValueError as error:
        raise BadFormError(str(error)) from None
    if end < begin:
        raise BadFormError("the range ends before it begins")
    return begin, end


async def one(view: ClusterView, form: Form) -> MessageExt:
    """By the broker's id, or by the producer's with its topic, or by its place. Raises
    ``BadFormError`` where there is none."""
    problems: list[str] = []
    if form.text("broker"):
        queue = MessageQueue(form.needed("topic"), form.text("broker"), form.number("queue"))
        pulled = await view.admin.pull(queue, form.number("offset"), 1)
        found = pulled.messages[:1]
    else:
        found, problems = await by_id(view, form.text("topic"), form.needed("id"))
    if not found:
        raise BadFormError("; ".join(problems) or "no broker has this message (any more)")
    return found[0]


def body_of(message: MessageExt) -> Body | str:
    """The body, or why it cannot be shown."""
    try:
        return look_at(message.body)
    except (CompressionError, RocketMQError) as error:
        return str(error)


async def message_facts(view: ClusterView, message: MessageExt) -> dict[str, Any]:
    """What the page of one message shows."""
    journey = await journey_of(view, message)
    spans = spans_of(journey.traces)
    return {
        "message": message,
        "topic": origin_topic(message),
        "group": group_of(message),
        "body": body_of(message),
        "properties": sorted(message.properties.items()),
        "steps": steps_of(journey.copies, journey.tracks, journey.traces),
        "bars": bars_of(spans),
        "problems": journey.problems,
        "message_link": message_link,
    }
