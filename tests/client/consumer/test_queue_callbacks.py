"""``on_assign`` and ``on_revoke``: when they are called, with what, and what comes of errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from aiorocketmq import ConfigError, PullConsumer, PushConsumer
from aiorocketmq.client.consumer import queue_callbacks
from aiorocketmq.client.consumer.queue_callbacks import QueueCallbacks
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..scripted_broker import BROKER, ScriptedBroker
from .test_ordered_consumption import cancels_itself, raises_what_is_no_exception

Make = Callable[..., Any]
TOPIC = "T"
TWO = (MessageQueue(TOPIC, "b", 0), MessageQueue(TOPIC, "b", 1))


def push(ordered: bool) -> Make:
    def make(**options: Any) -> PushConsumer:
        consumer = PushConsumer("g", ordered=ordered, **options)
        consumer.subscribe(TOPIC)
        consumer.on_message(lambda _message: None)
        return consumer

    return make


def pull(**options: Any) -> PullConsumer:
    return PullConsumer("g", TOPIC, **options)


async def settle(broker: ScriptedBroker, until: Callable[[], bool]) -> None:
    for _ in range(2000):
        if until():
            return
        broker.clock.advance(0.01)
        await asyncio.sleep(0)
    raise AssertionError("it has not come to that")


def own(queues: Iterable[MessageQueue]) -> list[int]:
    """Those of the topic, without the retry topic's."""
    return [queue.queue_id for queue in queues if queue.topic == TOPIC]


@pytest.mark.parametrize("make", [push(False), push(True), pull])
def test_queues_are_told_before_they_are_read_and_before_they_go(make: Make) -> None:
    broker = ScriptedBroker()
    broker.have_nothing(7)
    events: list[str] = []
    at_work = asyncio.Event()

    def pulls() -> int:
        return sum(r.topic == TOPIC for r in broker.requests(RequestCode.PULL_MESSAGE))

    async def on_assign(queues: tuple[MessageQueue, ...]) -> None:
        if own(queues):
            before = pulls()
            await at_work.wait()
            assert pulls() == before
            events.append(f"assigned {own(queues)}")

    async def on_revoke(queues: tuple[MessageQueue, ...]) -> None:
        if own(queues):
            unlocked = len(broker.requests(RequestCode.UNLOCK_BATCH_MQ))
            await asyncio.sleep(0)
            assert len(broker.requests(RequestCode.UNLOCK_BATCH_MQ)) == unlocked
            events.append(f"revoked {own(queues)}")

    async def main() -> None:
        instance = broker.instance()
        broker.know_topic(instance, TOPIC, 4)
        consumer = make(instance=instance, on_assign=on_assign, on_revoke=on_revoke)
        async with instance, consumer:
            await settle(broker, lambda: bool(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)))
            assert not pulls()
            at_work.set()
            await settle(broker, lambda: pulls() >= 4)
            assert events == ["assigned [0, 1, 2, 3]"]
            broker.members = [instance.client_id, "zz@later"]
            consumer.wake_rebalance()
            await settle(broker, lambda: events[1:] == ["revoked [2, 3]"])
            await settle(broker, lambda: len(own(consumer.assignment())) == 2)
        assert events[2:] == ["revoked [0, 1]"]

    asyncio.run(main())


def test_commit_works_while_the_consumer_is_stopped() -> None:
    broker = ScriptedBroker()
    broker.have_nothing(7)
    done: list[int] = []

    async def main() -> None:
        instance = broker.instance()
        broker.know_topic(instance, TOPIC, 2)

        async def on_revoke(queues: tuple[MessageQueue, ...]) -> None:
            await consumer.commit()
            done.extend(own(queues))

        consumer = pull(instance=instance, auto_commit=False, on_revoke=on_revoke)
        async with instance, consumer:
            await settle(broker, lambda: len(consumer.assignment()) == 2)
        assert done == [0, 1]
        assert len(broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 2

    asyncio.run(main())


def test_unsubscribe() -> None:
    broker = ScriptedBroker()
    broker.have_nothing(7)
    revoked: list[MessageQueue] = []

    async def main() -> None:
        instance = broker.instance()
        for topic in (TOPIC, "U"):
            broker.know_topic(instance, topic, 2)
        consumer = PullConsumer(
            "g", TOPIC, "U", instance=instance, on_revoke=lambda queues: revoked.extend(queues)
        )
        async with instance, consumer:
            await settle(broker, lambda: len(consumer.assignment()) == 4)
            consumer.unsubscribe(TOPIC)
            consumer.unsubscribe("nothing")
            while len(consumer.assignment()) == 4:  # a thread has to call a plain function
                await asyncio.sleep(0.001)
            assert {queue.topic for queue in consumer.assignment()} == {"U"}
            assert revoked == [MessageQueue(TOPIC, BROKER, 0), MessageQueue(TOPIC, BROKER, 1)]

    asyncio.run(main())


def with_two(on_assign: Any, on_revoke: Any) -> QueueCallbacks:
    """Of a consumer that reads two queues."""
    callbacks = QueueCallbacks("g", None, on_assign, on_revoke)
    for queue in TWO:
        callbacks.began(queue)
    return callbacks


def test_a_plain_function_runs_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    def note(_queues: object) -> None:
        threads.append(threading.current_thread())

    async def main() -> None:
        callbacks = with_two(note, None)
        await callbacks.assigned(TWO)
        await callbacks.assigned(())
        await callbacks.revoked(TWO)
        callbacks.close()

    asyncio.run(main())
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_what_a_callback_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(_queues: object) -> None:
        raise ValueError("wrong")

    async def main() -> None:
        callbacks = with_two(fails, fails)
        await callbacks.assigned(TWO)
        await callbacks.revoked(TWO)

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "on_assign failed group=g queues=2",
        "on_revoke failed group=g queues=2",
    ]


@pytest.mark.parametrize("ends", [cancels_itself, raises_what_is_no_exception])
def test_who_calls_one_outlives_whatever_it_does(
    ends: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def called(_queues: object) -> None:
        await ends()

    async def main() -> None:
        callbacks = with_two(called, called)
        await callbacks.assigned(TWO)
        await callbacks.revoked(TWO)

    asyncio.run(main())
    assert len(caplog.records) == 2


def test_one_that_does_not_return_is_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_callbacks, "LIMIT_S", 0.01)

    async def hangs(_queues: object) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await QueueCallbacks("g", None, hangs, None).assigned(TWO)

    asyncio.run(main())
    assert "on_assign failed group=g queues=2" in caplog.text


def test_who_is_cancelled_is_cancelled() -> None:
    told: list[object] = []
    go_on = asyncio.Event()

    async def waits(queues: object) -> None:
        told.append(queues)
        await go_on.wait()

    async def main() -> None:
        callbacks = with_two(None, waits)
        task = asyncio.create_task(callbacks.revoked(TWO))
        await asyncio.sleep(0)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        told.clear()
        await callbacks.revoked(TWO)
        await callbacks.revoked(TWO)
        assert told == [TWO], "again, because it has not ended, and then no more"

    asyncio.run(main())


@pytest.mark.parametrize("name", ["on_assign", "on_revoke"])
def test_what_is_no_function(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is a function that takes queues, not 'x'"):
        pull(namesrv="ns:9876", **{name: "x"})
