"""Dead letters and retries of a group: looked through, filtered, and sent again as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...client.errors import NoRouteError
from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.topic_names import dlq_topic, retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ..cluster import ClusterView
from ..door import Person
from ..lookups import at_broker, by_time
from ..model.journey import origin_topic
from ..site import BadFormError, Form, Site
from .messages import message_link, range_of

DAYS_MS: Final = 3 * 86_400_000
MOST_SHOWN: Final = 200
MOST_SENT: Final = 200
MARKER: Final = "<!-- rows -->"
COUNT: Final = "@@good@@"
KINDS: Final = {"dead": "dead letters", "retry": "retries"}
WAYS: Final = {
    "group": "to this group alone",
    "topic": "to the topic, so that all its groups get it",
}


class Outcome(NamedTuple):
    """What happened to one message."""

    msg_id: str
    text: str
    good: bool


def add_to(site: Site) -> None:
    async def show(request: Request, person: Person, form: Form) -> Response:
        group = form.text("group")
        topics = await person.view.topics.get()
        prefix = dlq_topic("")
        return site.html(
            request, person, "dead_letters.html", group=group, form=form, kinds=KINDS, ways=WAYS,
            kind=kind_of(form), message_link=message_link, origin_topic=origin_topic,
            groups=sorted(t.removeprefix(prefix) for t in topics.value if t.startswith(prefix)),
            **(await found_of(person.view, form) if group else NOTHING),
        )  # fmt: skip

    async def send_again(request: Request, person: Person, form: Form) -> Response:
        group, way, ids = form.needed("group"), form.needed("to"), form.all("id")
        if way not in WAYS:
            raise BadFormError(f"{way!r} is nowhere to send to")
        if not ids:
            raise BadFormError("no message is chosen")
        if len(ids) > MOST_SENT:
            raise BadFormError(f"at most {MOST_SENT} at once")
        frame = site.html(
            request, person, "sent_again.html", group=group, kind=kind_of(form), count=len(ids),
            marker=MARKER,
        )  # fmt: skip
        head, tail = bytes(frame.body).decode().split(MARKER)

        async def rows() -> AsyncIterator[str]:
            """Each as soon as it is known: the page shows how far it is."""
            yield head
            good = 0
            for msg_id in ids:  # in the order in which they stand on the page
                doing = again(person.view, msg_id, group, way)
                _, refused = await site.noted(
                    request, person, "send-again", f"{msg_id}@{group}>{way}", doing
                )
                good += not refused
                outcome = Outcome(msg_id, refused or "stored again", not refused)
                yield site.templates.render("sent_again_row.html", each=outcome)
            yield tail.replace(COUNT, str(good))

        return StreamingResponse(rows(), media_type="text/html")

    site.page("/dead-letters", show)
    site.change("/dead-letters/send-again", send_again)


NOTHING: Final[dict[str, Any]] = {"found": None, "problems": []}


def kind_of(form: Form) -> str:
    kind = form.text("kind", "dead")
    return kind if kind in KINDS else "dead"


async def found_of(view: ClusterView, form: Form) -> dict[str, Any]:
    """Those of a time that match. Raises ``BadFormError``."""
    group = form.needed("group")
    topic = dlq_topic(group) if kind_of(form) == "dead" else retry_topic(group)
    begin, end = range_of(view, form, DAYS_MS)
    try:
        found, problems = await by_time(view, topic, begin, end, MOST_SHOWN)
    except NoRouteError:
        return {"found": [], "problems": []}  # nothing ever came there
    wanted = form.text("q").lower()
    return {"found": [each for each in found if matches(each, wanted)], "problems": problems}


def matches(message: MessageExt, wanted: str) -> bool:
    """In its id, keys, tag, topic, or in the first of its body."""
    texts = (message.msg_id, *message.keys, message.tags or "", origin_topic(message))
    if any(wanted in text.lower() for text in texts):
        return True
    try:
        return wanted in message.body[:65536].decode("utf-8", "replace").lower()
    except ValueError:
        return False


async def again(view: ClusterView, msg_id: str, group: str, way: str) -> None:
    """As it is: nothing of it can be edited. Raises ``RocketMQError``."""
    message = await at_broker(view, msg_id)
    if message.topic not in (dlq_topic(group), retry_topic(group)):
        raise BadFormError(f"{msg_id} is no dead letter and no retry of {group}")
    try:
        await view.admin.send_again(
            message, topic=origin_topic(message), group=group if way == "group" else None
        )
    except ValueError as error:
        if isinstance(error, RocketMQError):
            raise
        raise BadFormError(str(error)) from None  # a body that cannot be unpacked
