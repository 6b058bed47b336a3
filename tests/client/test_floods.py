"""A minute without brokers is some lines in the log, however many queues there are."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiorocketmq import PushConsumer
from aiorocketmq.client.cluster.pushed_requests import PushedRequests
from aiorocketmq.client.handlers import failure_of
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ..floods import TWO_MINUTES, told
from ..sim import ManualClock
from .consumer.test_ordered_consumption import Scene, messages_of
from .messages import record
from .producer.test_request_reply import pushed
from .scripted_broker import ADDRESS, ScriptedBroker

QUEUES = 8
STEP_S = 0.25


async def pass_time(broker: ScriptedBroker, seconds: float) -> None:
    for _ in range(round(seconds / STEP_S)):
        broker.clock.advance(STEP_S)
        for _ in range(30):
            await asyncio.sleep(0)


def _told(record: logging.LogRecord) -> bool:
    return record.levelno > logging.INFO or "over: " in record.getMessage()


@pytest.mark.parametrize("ordered", [False, True])
def test_a_minute_without_brokers(caplog: pytest.LogCaptureFixture, ordered: bool) -> None:
    broker = ScriptedBroker()
    broker.have_nothing(0)

    async def main() -> None:
        instance = broker.instance()
        for topic in ("T", "U", "%RETRY%g"):
            broker.know_topic(instance, topic, QUEUES)
        consumer = PushConsumer("g", instance=instance, ordered=ordered)
        for topic in ("T", "U"):
            consumer.subscribe(topic)
        consumer.on_message(lambda _message: None)
        async with instance, consumer:
            await pass_time(broker, 2)
            assert len(consumer.assignment()) == 3 * QUEUES
            broker.down = True
            broker.restart()
            await pass_time(broker, 65)
            warnings = [record.getMessage() for record in caplog.records]
            begun = [text for text in warnings if not text.startswith("still: ")]
            assert 3 <= len(begun) <= 8, begun
            assert len(set(begun)) == len(begun)
            assert any(text.startswith("still: pull failed group=g") for text in warnings)
            assert len(warnings) <= 2 * len(begun)
            broker.down = False
            pulls = len(broker.requests(RequestCode.PULL_MESSAGE))
            await pass_time(broker, 40)
            assert len(broker.requests(RequestCode.PULL_MESSAGE)) > pulls + QUEUES
            told = [record.getMessage() for record in caplog.records]
            assert sum(text.startswith("over: ") for text in told) == len(begun)

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        caplog.handler.addFilter(_told)
        try:
            asyncio.run(main())
        finally:
            caplog.handler.removeFilter(_told)  # it serves all tests


class _Pushed:
    """What handlers of pushed requests look at."""

    received_at_ms = 99
    peer = ADDRESS


def test_what_brokers_push_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        requests = PushedRequests(None, Outages(ManualClock()))
        half = record(1, properties={"PGROUP": "nobody"})
        check: Any = None
        for _ in range(5):
            await requests._check_transaction(check, half, _Pushed())  # type: ignore[arg-type]
            await requests._check_transaction(check, b"?", _Pushed())  # type: ignore[arg-type]
            requests.replies.replied(pushed(), memoryview(b"late"), _Pushed())  # type: ignore[arg-type]

    asyncio.run(main())
    lines = [each.getMessage().partition(" group=")[0] for each in caplog.records]
    assert sorted(line.partition(" broker=")[0] for line in lines) == [
        "a reply that nobody waits for",
        "check of a transaction cannot be read",
        "check of a transaction that is nobody's",
    ]


def test_a_dead_letter_that_cannot_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scene = Scene(max_reconsume_times=0)
        message = messages_of(0, 0)[0]
        scene.retry_topic_answers = False
        for _ in range(130):
            await scene.consumption._passed_on(message)
            scene.clock.advance(1)
        scene.retry_topic_answers = True
        await scene.consumption._passed_on(message)

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        asyncio.run(main())
    assert told(caplog, "message not passed on") == TWO_MINUTES


def test_a_handler_that_fails_for_every_message(caplog: pytest.LogCaptureFixture) -> None:
    """In one place; another one is another line."""

    async def main() -> None:
        clock = ManualClock()
        outages = Outages(clock)

        async def first(_messages: list[MessageExt]) -> None:
            raise OSError("the data base is away")

        async def second(_messages: list[MessageExt]) -> None:
            raise OSError("so is the other one")

        for _ in range(130):
            for handler in (first, second):
                failure = await failure_of(handler, messages_of(0, 0), "g", outages, lambda: False)
                assert failure is not None
            clock.advance(1)

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        asyncio.run(main())
    assert told(caplog, "handler failed group=g") == [""] * 6
    assert [str((each.exc_info or (0, 0))[1]) for each in caplog.records] == [
        "the data base is away",
        "so is the other one",
    ] * 3
