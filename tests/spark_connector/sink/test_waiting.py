"""How long rows wait for a broker, what the log says of it, and what is not waited for."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

from aiorocketmq.client.errors import Attempt, NoRouteError, SendFailed
from aiorocketmq.remoting.errors import (
    BrokerError,
    ConnectError,
    NoPermission,
    RemotingError,
    RocketMQError,
    SystemBusy,
)
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.spark_connector.sink.waiting import DeliveryTimeoutError, Patience

from ...sim import ManualClock


class World:
    """Stands for the client: pauses pass at once, and are noted with the topic whose route is
    asked for meanwhile."""

    def __init__(self, limit_s: float = 120.0, retries: int | None = None) -> None:
        self.clock = ManualClock()
        self.masters = self
        self.pauses: list[float] = []
        self.topics: set[str] = set()
        self.given: list[float] = []
        self.patience = Patience(self, limit_s, retries)  # type: ignore[arg-type]

    async def changed(self, topic: str, seconds: float) -> None:
        self.topics.add(topic)
        self.pauses.append(round(seconds, 6))
        self.clock.advance(seconds)

    def deliver(self, *failures: RocketMQError, whom: str = "the broker a", last: Any = 7) -> Any:
        """What comes of work that fails so and then succeeds; with ``last`` an error it goes on
        failing."""
        left = list(failures)

        async def work(seconds: float) -> Any:
            self.given.append(seconds)
            if left:
                raise left.pop(0)
            if isinstance(last, RocketMQError):
                raise last
            return last

        return asyncio.run(self.patience.until_done("T", whom, work))


GONE = SendFailed("T", (Attempt("a", "a:1", ConnectError("cannot connect to a:1: refused"), 0.0),))


def answered(*errors: RemotingError | BrokerError) -> SendFailed:
    return SendFailed("T", tuple(Attempt("a", "a:1", error, 0.0) for error in errors))


@pytest.mark.parametrize(
    "failure",
    [
        GONE,
        NoRouteError("nobody has it"),
        ConnectError("no name server"),
        SystemBusy(ResponseCode.SYSTEM_BUSY, "busy"),
        answered(BrokerError(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full")),
        answered(BrokerError(ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy")),
        answered(NoPermission(ResponseCode.NO_PERMISSION, "no"), ConnectError("refused")),
    ],
)
def test_what_time_mends_is_waited_for(failure: RocketMQError) -> None:
    world = World()
    assert world.deliver(*[failure] * 20) == 7
    assert world.pauses == [0.1, 0.2, 0.4, 0.8, 1.6] + [2.0] * 15
    assert world.topics == {"T"}


def test_when_the_time_is_up_the_error_says_for_whom_and_what_to_do() -> None:
    world = World(limit_s=5)
    with pytest.raises(DeliveryTimeoutError) as raised:
        world.deliver(last=GONE)
    assert sum(world.pauses) == pytest.approx(5)
    assert world.given[:2] == pytest.approx([5.0, 4.9])
    assert world.given[-1] == 1.0
    assert raised.value.__cause__ is GONE
    for text in ("topic T", "the broker a", "5 s (option deliveryTimeout)", "refused", "clusterLi"):
        assert text in str(raised.value)


def test_a_refusal_is_not_waited_for_as_long() -> None:
    refused = answered(NoPermission(ResponseCode.NO_PERMISSION, "read only"))
    world = World()
    assert world.deliver(*[refused] * 5) == 7
    with pytest.raises(SendFailed, match="read only"):
        world.deliver(last=refused)
    assert world.pauses == [0.1, 0.2, 0.4, 0.8, 1.6] * 2
    refusal = BrokerError(ResponseCode.MESSAGE_ILLEGAL, "too long")
    with pytest.raises(BrokerError, match="too long"):
        world.deliver(last=refusal)
    assert len(world.pauses) == 10


@pytest.mark.parametrize("retries", [0, 3])
def test_retries_end_it_sooner(retries: int) -> None:
    world = World(retries=retries)
    with pytest.raises(SendFailed):
        world.deliver(last=GONE)
    assert len(world.given) == 1 + retries


def test_the_log_says_once_that_rows_wait_and_once_that_they_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()

    async def two_chunks() -> None:
        async def work(_: float) -> None:
            gone = world.clock.monotonic() < 1005
            await asyncio.sleep(0)
            if gone:
                raise GONE

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(world.patience.until_done("T", "the broker a", work))

    asyncio.run(two_chunks())
    world.deliver(whom="the broker b")
    waits, goes_on = [record.getMessage() for record in caplog.records]
    assert waits.startswith("rows for the topic T wait for the broker a, for 120 s at most")
    assert "a:1" in waits
    assert re.fullmatch(r"rows for the topic T go on after [5-9]\.\d s: the broker a", goes_on)
    world.deliver(GONE)
    assert len(caplog.records) == 4
