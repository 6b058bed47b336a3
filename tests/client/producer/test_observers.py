"""Who observes sends as a whole: told of the begin and of the end, once, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from aiorocketmq import Message, MessageError, NoRouteError, Producer, SendContext, SendResult
from aiorocketmq.client.producer.hooks import BegunSend, MessageKind, SendHooks

from ..scripted_broker import ScriptedBroker

SENDER = ("g", "c@1", None)


class Progress:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties
        self.ends: list[BaseException | None] = []

    def attempted(self, context: SendContext) -> None: ...

    def ended(self, result: SendResult | None, error: BaseException | None) -> None:
        self.ends.append(error)


class Observer:
    def __init__(self) -> None:
        self.begun: list[BegunSend] = []
        self.progress = Progress({"a": "added", "b": "added"})

    def begin_send(self, begun: BegunSend) -> Progress:
        self.begun.append(begun)
        return self.progress


class Broken:
    def begin_send(self, begun: BegunSend) -> Progress:
        raise ValueError("no")


def test_properties_are_added_to_messages_that_have_others() -> None:
    observer = Observer()
    hooks = SendHooks([Broken(), observer], [])
    assert hooks
    assert hooks.observed
    message = Message("T", b"x", properties={"a": "own"})
    watched = hooks.begin(message, SENDER, half=False)
    assert watched is not None
    marked = watched.made(message, lambda marked: marked)
    assert marked == Message("T", b"x", properties={"a": "own", "b": "added"})
    assert message.properties == {"a": "own"}, "it is the program's"
    (begun,) = observer.begun
    assert (begun.kind, begun.is_batch, begun.messages) == (MessageKind.NORMAL, False, (message,))
    with watched:
        assert observer.progress.ends == []
    watched.end(ValueError("late"))
    assert observer.progress.ends == [None]


def test_a_message_that_cannot_be_sent_is_the_end() -> None:
    observer, error = Observer(), MessageError("too long")
    messages = [Message("T", b"x"), Message("T", b"y")]
    watched = SendHooks([observer], []).begin(messages, SENDER, half=True)
    assert watched is not None

    def make(marked: list[Message]) -> None:
        assert [each.properties for each in marked] == [{"a": "added", "b": "added"}] * 2
        raise error

    with pytest.raises(MessageError):
        watched.made(messages, make)
    assert observer.progress.ends == [error]
    assert observer.begun[0].is_batch
    assert observer.begun[0].kind is MessageKind.HALF


@pytest.mark.parametrize("message", [5, [], "text", [Message("T", b"x"), 5], None])
def test_what_is_no_message_is_not_begun(message: object) -> None:
    observer = Observer()
    assert SendHooks([observer], []).begin(message, SENDER, half=False) is None  # type: ignore[arg-type]
    assert observer.begun == []


def test_a_request_that_finds_no_topic_is_at_its_end() -> None:
    async def scenario() -> None:
        observer = Observer()
        broker = ScriptedBroker()
        producer = Producer("g", instance=broker.instance(), hooks=[observer])
        producer._running = True  # what else starting does is not wanted here

        async def nobody(*_: object) -> None:
            raise NoRouteError("nobody has it")

        producer._delivery.publish_queues = nobody  # type: ignore[method-assign,assignment]
        with pytest.raises(NoRouteError):
            await producer.request(Message("T", b"x"))
        [error] = observer.progress.ends
        assert isinstance(error, NoRouteError)

    asyncio.run(scenario())
