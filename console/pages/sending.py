"""A test message to send, and a topic to watch as messages come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ...client.producer.sending import SendResult
from ...remoting.protocol.message.message import Message
from ..cluster import ClusterView
from ..door import Person
from ..live import event
from ..model.bodies import MOST_BYTES
from ..site import BadFormError, Form, Site, address_of
from ..tail import Tail
from .messages import message_link

DELAYS: Final = (
    *("none", "1 s", "5 s", "10 s", "30 s"),
    *(f"{minutes} min" for minutes in (*range(1, 11), 20, 30)),
    *("1 h", "2 h"),
)
"""Of the levels 0 to 18, as brokers have them unless they were told otherwise."""
EXPRESSIONS: Final = ("TAG", "SQL92")


def add_to(site: Site) -> None:
    async def show_send(request: Request, person: Person, form: Form) -> Response:
        return site.html(
            request, person, "send.html", form=form, delays=DELAYS, sent=None, problem="",
            message_link=message_link,
        )  # fmt: skip

    async def send(request: Request, person: Person, form: Form) -> Response:
        message = message_of(form)
        subject = f"{message.topic},bytes={len(message.body)}"
        doing = sent_by(person.view, message, form.text("ordered_by"))
        result, refused = await site.noted(request, person, "send", subject, doing)
        return site.html(
            request, person, "send.html", form=form, delays=DELAYS, sent=result, problem=refused,
            message_link=message_link,
        )  # fmt: skip

    async def show_tail(request: Request, person: Person, form: Form) -> Response:
        return site.html(request, person, "tail.html", form=form, kinds=EXPRESSIONS)

    async def follow(request: Request, person: Person, form: Form) -> Response:
        tail = tail_of(person.view, form)
        return site.live.own(address_of(request), events(tail), lambda: site.still_in(person))

    async def events(tail: Tail) -> AsyncIterator[str]:
        async for found, text in tail.run():
            rows: Any = [site.templates.render("tail_row.html", each=each) for each in found]
            yield event("tail", "".join(rows)) + event("tail-state", text)

    site.page("/send", show_send)
    site.change("/send", send)
    site.page("/tail", show_tail)
    site.page("/live/tail", follow)


def message_of(form: Form) -> Message:
    """Raises ``BadFormError``."""
    body = form.raw("body").replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    if len(body) > MOST_BYTES:
        raise BadFormError(f"a test message has at most {MOST_BYTES:,} bytes, not {len(body):,}")
    delay = form.number("delay", 0)
    if delay >= len(DELAYS):
        raise BadFormError(f"the delay level is 0 to {len(DELAYS) - 1}")
    return Message(
        form.needed("topic"),
        body,
        tags=form.text("tag") or None,
        keys=form.text("keys").split(),
        delay_level=delay,
    )


async def sent_by(view: ClusterView, message: Message, ordered_by: str) -> SendResult:
    """``ordered_by``: messages of one such text go to one queue. Raises ``RocketMQError``."""
    return await (await view.producer()).send(message, sharding_key=ordered_by or None)


def tail_of(view: ClusterView, form: Form) -> Tail:
    """Raises ``BadFormError``."""
    kind = form.text("kind", "TAG")
    if kind not in EXPRESSIONS:
        raise BadFormError(f"{kind!r} is no kind of filter: {', '.join(EXPRESSIONS)}")
    return Tail(view, form.needed("topic"), form.text("filter") or "*", kind)
