"""Where a consumer begins (client.md §4.4), rule by rule."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from aiorocketmq.client.offsets.local_offsets import LocalOffsets
from aiorocketmq.client.offsets.offset_store import BrokerOffsets
from aiorocketmq.client.offsets.start_offset import StartFrom, StartPolicy
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import BrokerError, RocketMQError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from tests.sim import ManualClock

from ..scripted_broker import BROKER, ScriptedBroker

NOW_MS = 1_700_000_000_000
HALF_AN_HOUR_MS = 1_800_000
MIN, MAX, AT_TIME = 10, 90, 40
NONE, BUSY = ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_BUSY
LAST, FIRST, TIMESTAMP = StartFrom


class Rule(NamedTuple):
    start_from: StartFrom
    retry_topic: bool
    stored: int | ResponseCode
    """The group's offset, or the code that the broker answers instead."""
    expected: int | ResponseCode
    """Where it begins, or the error."""


RULES = [
    *(Rule(each, retry, 17, 17) for each in StartFrom for retry in (False, True)),
    *(Rule(each, retry, 0, 0) for each in StartFrom for retry in (False, True)),
    *(
        Rule(each, retry, BUSY, BUSY) for each in StartFrom for retry in (False, True)
    ),  # not "none": it may be there
    Rule(LAST, False, NONE, MAX),
    Rule(LAST, True, NONE, 0),
    Rule(FIRST, False, NONE, MIN),
    Rule(FIRST, True, NONE, 0),
    Rule(TIMESTAMP, False, NONE, AT_TIME),
    Rule(TIMESTAMP, True, NONE, MAX),
]


def script(stored: int | ResponseCode) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.answers |= {
        RequestCode.QUERY_CONSUMER_OFFSET: lambda _: (
            Reply(int(stored), remark="no")
            if isinstance(stored, ResponseCode)
            else Reply(header=OffsetResponse(offset=stored))
        ),
        RequestCode.GET_MIN_OFFSET: lambda _: Reply(header=OffsetResponse(offset=MIN)),
        RequestCode.GET_MAX_OFFSET: lambda _: Reply(header=OffsetResponse(offset=MAX)),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda _: Reply(
            header=OffsetResponse(offset=AT_TIME)
        ),
    }
    return broker


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_where_a_clustering_consumer_begins(rule: Rule, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        broker = script(rule.stored)
        instance = broker.instance()
        topic = "%RETRY%g" if rule.retry_topic else "T"
        queue = broker.know_topic(instance, topic)[2]
        policy = StartPolicy(rule.start_from, None, NOW_MS)
        offset = policy.offset(instance, BrokerOffsets(instance, "g"), queue)
        if isinstance(rule.expected, ResponseCode):
            with pytest.raises(BrokerError) as raised:
                await offset
            assert raised.value.code == rule.expected
        else:
            with caplog.at_level("INFO"):
                assert await offset == rule.expected
            (line,) = [
                record.getMessage()
                for record in caplog.records
                if "start offset" in record.getMessage()
            ]
            assert f"queue={topic}/{BROKER}/2 offset={rule.expected}: the " in line
        for request in broker.requests(RequestCode.QUERY_CONSUMER_OFFSET):
            assert (request.consumer_group, request.topic, request.queue_id) == ("g", topic, 2)
        assert len(broker.asked) == (
            2 if rule.expected in (MIN, MAX, AT_TIME) else 1
        )  # no question more than needed
        await instance.remoting.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("start_from", "expected"), [(LAST, MAX), (FIRST, MIN), (TIMESTAMP, AT_TIME)]
)
def test_where_a_broadcasting_consumer_begins(
    start_from: StartFrom, expected: int, tmp_path: Path
) -> None:
    """The broker is never asked for the group's offset: there is none."""

    async def main() -> None:
        broker = script(77)
        instance = broker.instance()
        first, second, *_ = broker.know_topic(instance, "T")
        file = LocalOffsets(tmp_path, "10.0.0.1@DEFAULT", "g", ManualClock())
        policy = StartPolicy(start_from, None, NOW_MS)
        assert await policy.offset(instance, file, first) == expected
        await file.commit({second: 5})
        assert (
            await policy.offset(
                instance, LocalOffsets(tmp_path, "10.0.0.1@DEFAULT", "g", ManualClock()), second
            )
            == 5
        )
        assert broker.requests(RequestCode.QUERY_CONSUMER_OFFSET) == []
        await instance.remoting.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("since", "expected_ms"),
    [
        (None, NOW_MS - HALF_AN_HOUR_MS),
        (datetime(2023, 11, 14, 22, 0, tzinfo=UTC), 1_699_999_200_000),
        (
            datetime.fromtimestamp(1_699_999_200, UTC).astimezone().replace(tzinfo=None),
            1_699_999_200_000,
        ),  # naive: local time
    ],
)
def test_which_time_counts(since: datetime | None, expected_ms: int) -> None:
    async def main() -> None:
        broker = script(NONE)
        instance = broker.instance()
        (queue,) = broker.know_topic(instance, "T", 1)
        await StartPolicy(TIMESTAMP, since, NOW_MS).offset(
            instance, BrokerOffsets(instance, "g"), queue
        )
        (request,) = broker.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
        assert request.timestamp == expected_ms
        await instance.remoting.close()

    asyncio.run(main())


def test_a_broker_that_cannot_be_reached_is_no_answer() -> None:
    async def main() -> None:
        broker = script(NONE)
        broker.down = True
        instance = broker.instance()
        (queue,) = broker.know_topic(instance, "T", 1)
        for start_from in StartFrom:
            with pytest.raises(RocketMQError):
                await StartPolicy(start_from, None, NOW_MS).offset(
                    instance, BrokerOffsets(instance, "g"), queue
                )
        await instance.remoting.close()

    asyncio.run(main())


def test_a_broker_that_is_not_known_is_no_answer() -> None:
    async def main() -> None:
        broker = script(NONE)
        instance = broker.instance()
        broker.know_topic(instance, "T")
        broker.down = True  # the name server too
        queue = MessageQueue("T", "broker-z", 0)
        with pytest.raises(RocketMQError):
            await StartPolicy(LAST, None, NOW_MS).offset(
                instance, BrokerOffsets(instance, "g"), queue
            )
        await instance.remoting.close()

    asyncio.run(main())
