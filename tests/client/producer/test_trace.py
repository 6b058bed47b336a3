"""Traces are gathered, hold nothing up and are never too long for a broker (client.md §7.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.producer.trace import (
    FLUSH_RECORDS,
    MAX_WAITING,
    ConsumeTracer,
    Tracer,
    trace_topic,
)
from aiorocketmq.client.producer.trace_records import Consumed, ConsumeOutcome, Consuming
from aiorocketmq.remoting.responses import Response

from ...sim import turns
from ..messages import stored
from .test_delivery import World

RECORD = Consuming(1, "R", "g", "REQ", "ID", 0, None)


def world(code: int = 0) -> World:
    result = World(lambda *_: (code, 0.0))
    route = result.instance.routes.cached("T")
    assert route is not None
    result.instance.routes._store(route._replace(topic="Trace"))
    return result


def test_records_leave_half_a_second_after_the_first_or_when_there_are_many() -> None:
    async def scenario() -> None:
        here = world()
        tracer = Tracer(here.instance, "g", "PRODUCE", "Trace")
        running = asyncio.create_task(tracer.run())
        tracer.add(RECORD, ("ID",))
        await turns()
        assert here.addresses == []
        here.clock.advance(0.5)
        await turns()
        assert len(here.addresses) == 1
        for number in range(FLUSH_RECORDS):
            tracer.add(RECORD, (f"ID{number}",))
        await turns()
        assert len(here.addresses) == 2
        running.cancel()

    asyncio.run(scenario())


def test_too_many_are_dropped_and_a_broker_that_refuses_them_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        here = world(code=2)
        tracer = Tracer(here.instance, "g", "PRODUCE", "Trace")
        for _ in range(MAX_WAITING + 3):
            tracer.add(RECORD, ("ID",))
        await tracer.close()
        assert not tracer._waiting

    asyncio.run(scenario())
    assert "dropped=3" in caplog.text
    assert "trace not sent" in caplog.text


@pytest.mark.parametrize("key", ["k" * 997, "键" * 333])
def test_keys_are_as_many_as_a_broker_takes(key: str) -> None:
    async def scenario() -> None:
        here = world()
        tracer = Tracer(here.instance, "g", "PRODUCE", "Trace")
        for number in range(100):
            tracer.add(RECORD, (f"{number:03}{key}",))
        tracer.add(
            RECORD, ("x" * 40_000,)
        )  # longer than any message can carry: the record leaves all the same
        await tracer.close()
        assert len(here.addresses) == 5

    asyncio.run(scenario())


def test_keys_of_many_bytes_are_no_more_than_a_broker_takes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        here = world()
        tracer = Tracer(here.instance, "g", "PRODUCE", "Trace")
        for number in range(FLUSH_RECORDS):
            tracer.add(RECORD, (f"ID{number:030}", f"{number:04}订单编号的关键字" * 2))
        await tracer.close()
        assert len(here.addresses) == 2

    asyncio.run(scenario())
    assert "trace not sent" not in caplog.text


def test_in_a_cloud_every_region_has_its_topic() -> None:
    class Cloud(World):
        sent: list[tuple[str, bytes]]

        async def invoke(self, *args: Any, **kwargs: Any) -> Response:
            self.sent.append((args[2].topic, args[3]))
            return await super().invoke(*args, **kwargs)

    async def scenario() -> None:
        here = Cloud(lambda *_: (0, 0.0), access_channel="CLOUD")
        here.sent = []
        route = here.instance.routes.cached("T")
        assert route is not None
        for topic in ("rmq_sys_TRACE_DATA_R", "rmq_sys_TRACE_DATA_DefaultRegion"):
            here.instance.routes._store(route._replace(topic=topic))
        tracer = ConsumeTracer(here.instance, "g", "Trace")
        tracer.after(
            tracer.before([stored(0, properties={"MSG_REGION": "R"}), stored(1)]),
            ConsumeOutcome.SUCCESS,
        )
        await tracer.close()
        assert [topic.rpartition("_")[2] for topic, _ in here.sent] == [
            "R",
            "DefaultRegion",
            "R",
            "DefaultRegion",
        ]
        assert [body.partition(b"\x01")[0] for _, body in here.sent] == [b"SubBefore"] * 2 + [
            b"SubAfter"
        ] * 2
        assert here.sent[3][1].endswith(b"\x010\x01")

    asyncio.run(scenario())


def test_what_is_not_to_be_traced_is_not() -> None:
    async def scenario() -> None:
        tracer = ConsumeTracer(world().instance, "g", "Trace")
        assert (
            tracer.before([stored(0, properties={"TRACE_ON": "false"}), stored(1, topic="Trace")])
            is None
        )
        tracer.after(None, ConsumeOutcome.SUCCESS)
        call = tracer.before([stored(0), stored(1, properties={"TRACE_ON": "false"})])
        tracer.after(call, ConsumeOutcome.TIME_OUT)
        assert len(tracer._tracer._waiting) == 2

    asyncio.run(scenario())


def test_the_cost_of_a_call_is_shared_by_its_messages() -> None:
    async def scenario() -> None:
        here = world()
        tracer = ConsumeTracer(here.instance, "g", "Trace")
        call = tracer.before([stored(0), stored(1)])
        here.clock.advance(3.0)
        tracer.after(call, ConsumeOutcome.SUCCESS)
        text = tracer._tracer._waiting[-1].text
        assert text.startswith("SubAfter\x01")
        assert text.split("\x01")[3] == "1500"

    asyncio.run(scenario())


def test_where_traces_go() -> None:
    assert (trace_topic(False), trace_topic(True), trace_topic("Mine")) == (
        None,
        "RMQ_SYS_TRACE_TOPIC",
        "Mine",
    )
    with pytest.raises(ConfigError):
        trace_topic("no spaces")
    assert Consumed("r", "m", 1, True, None, ConsumeOutcome.SUCCESS).encode().endswith("\x02")
