"""What a handler returns: nothing that matters, unless it is not yet done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from aiorocketmq.client.consumer.consume_hooks import ConsumeHooks
from aiorocketmq.client.errors import ConfigError, RetryLater, SuspendQueue
from aiorocketmq.client.handlers import Handler, failure_of
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ..floods import told
from ..sim import ManualClock
from .consumer.test_ordered_consumption import Scene as OrderedScene
from .consumer.test_ordered_consumption import messages_of
from .consumer.test_owned_queue import pulled
from .consumer.test_push_consumer import Scene


class Status(Enum):
    """As handlers of other clients return it."""

    RECONSUME_LATER = 1


async def fails(message: MessageExt) -> None:
    await asyncio.sleep(0)
    raise LookupError(message.queue_offset)


def forgets_to_await() -> Callable[[MessageExt], Any]:
    async def handler(message: MessageExt) -> Any:
        return fails(message)

    return handler


@pytest.mark.parametrize("handler", [lambda message: fails(message), forgets_to_await()])
@pytest.mark.parametrize("looked_at", [False, True])
def test_a_coroutine_that_a_handler_returns_is_run(handler: Any, looked_at: bool) -> None:
    """Or its message would be done without anybody having seen it."""

    async def main() -> None:
        made = Handler(handler, takes_batch=False, concurrency=1, name="of this test")
        clock = ManualClock()
        call = made.call
        if looked_at:
            call = ConsumeHooks("g", [], None, clock, 60.0).around(call, lambda: False)
        failure = await failure_of(call, messages_of(0, 7), "g", Outages(clock), lambda: False)
        assert isinstance(failure, LookupError)
        assert failure.args == (7,)
        scene = Scene()
        scene.consumption._call = call
        scene.owned.put(pulled(7, following=8))
        await scene.work_until(lambda: bool(scene.given_back))
        made.close()

    asyncio.run(main())


@pytest.mark.parametrize("returned", [False, Status.RECONSUME_LATER, RetryLater()])
@pytest.mark.parametrize("looked_at", [False, True])
def test_what_means_again_elsewhere_is_told(
    caplog: pytest.LogCaptureFixture, returned: object, looked_at: bool
) -> None:
    async def main() -> None:
        async def handler(_messages: list[MessageExt]) -> object:
            return returned

        scene = Scene()
        hooks = ConsumeHooks("g", [], None, scene.clock, 60.0)
        scene.consumption._call = hooks.around(handler, lambda: False) if looked_at else handler
        scene.owned.put(pulled(5, 6, 7, following=8))
        await scene.work_until(lambda: scene.world.committed == 8)
        assert not scene.given_back

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        asyncio.run(main())
    assert len(told(caplog, "and the message is done: to have it again raise")) == 1


@pytest.mark.parametrize("returned", [None, True, 0, "stored", [1]])
def test_whatever_else_is_returned_is_nobodys_business(
    caplog: pytest.LogCaptureFixture, returned: object
) -> None:
    async def main() -> None:
        async def handler(_messages: list[MessageExt]) -> object:
            return returned

        outages = Outages(ManualClock())
        assert await failure_of(handler, messages_of(0, 0), "g", outages, lambda: False) is None

    asyncio.run(main())
    assert not caplog.records


@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_may_use_up_the_list_that_it_gets(fails: bool) -> None:
    """What is consumed, or comes again, is what it was given, not what it has left of it."""

    async def use_up(messages: list[MessageExt]) -> None:
        while messages:
            messages.pop()
        if fails:
            raise RetryLater

    async def main() -> None:
        scene = Scene(batch_size=8)
        scene.consumption._call = Handler(
            use_up, takes_batch=True, concurrency=1, name="of this test"
        ).call
        scene.owned.put(pulled(5, 6, 7, following=8))
        await scene.work_until(lambda: scene.world.committed == 8)
        assert [offset for offset, _ in scene.given_back] == ([5, 6, 7] if fails else [])

    asyncio.run(main())


@pytest.mark.parametrize("level", [30.0, "3", True, -2, None])
def test_what_is_no_delay_level(level: Any) -> None:
    with pytest.raises(ConfigError, match=r"RetryLater takes a delay level, no seconds: .*, not "):
        RetryLater(level)


@pytest.mark.parametrize("seconds", ["5", -1, float("nan")])
def test_what_are_no_seconds(seconds: Any) -> None:
    with pytest.raises(ConfigError, match=r"SuspendQueue takes seconds, 0\.01 to 30, not "):
        SuspendQueue(seconds)


@pytest.mark.parametrize(
    ("ordered", "failure", "text"),
    [
        (False, RetryLater(19), "RetryLater(19): that is a level, no seconds, and brokers have 18"),
        (False, RetryLater(18), None),
        (False, SuspendQueue(0.5), "SuspendQueue(0.5): without ordered=True no queue waits, the "),
        (False, SuspendQueue(), None),
        (True, RetryLater(4), "RetryLater(4): with ordered=True a level says nothing, the queue "),
        (True, RetryLater(), None),
        (True, SuspendQueue(100), "SuspendQueue(100): a queue waits for 30 s at most"),
        (True, SuspendQueue(30), None),
    ],
)
def test_a_wish_that_is_not_heeded_is_told_once(
    caplog: pytest.LogCaptureFixture, ordered: bool, failure: BaseException, text: str | None
) -> None:
    """How long to wait: the consumer takes another time."""

    async def main() -> None:
        scene: Any = OrderedScene(queues=2) if ordered else Scene()
        scene.failing = lambda _: failure
        for number, owned in enumerate(scene.owned if ordered else [scene.owned]):
            owned.put(pulled(5, 6, following=7)._replace(messages=messages_of(number, 5, 6)))
        await scene.work_until(lambda: len(scene.handled if ordered else scene.given_back) == 2)

    asyncio.run(main())
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(found) == (text is not None)
    assert all(each.startswith(text or "") and each.endswith(" group=g") for each in found)


def test_a_handler_that_fails_is_told_with_the_number_of_the_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        messages = messages_of(0, 7)
        messages[0].reconsume_times = 2
        await failure_of(fails_at_all, messages, "g", Outages(ManualClock()), lambda: False)

    asyncio.run(main())
    assert "handler failed group=g reconsume_times=2 first of 1 messages=" in caplog.text


async def fails_at_all(_messages: list[MessageExt]) -> None:
    raise LookupError
