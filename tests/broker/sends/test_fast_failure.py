"""Messages are refused while the disk, or the event loop, cannot keep up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.sends.fast_failure import LOOK_S, REST_S, FastFailure
from aiorocketmq.broker.sends.send_gate import SendGate
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.config import FlushDiskType

from ...sim import ManualClock
from ..sim_broker import SimBroker, SimClient, sim_broker, store_config


class SlowDisk(PosixDisk):
    """Syncs nothing while ``go_on`` is not set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()

    def sync(self, fd: int) -> None:
        self.go_on.wait()
        super().sync(fd)


class Waiting:
    """Sends that wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self.oldest_wait_s = 0.0


class WatchedGate(SendGate):
    """What it was told."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self.said: list[str | None] = []

    def refuse(self, remark: str | None) -> None:
        self.said.append(remark)
        super().refuse(remark)


class Judged:
    """A FastFailure and what it decides."""

    def __init__(self, **config: Any) -> None:
        self.waits = Waiting()
        self.config = BrokerConfig(broker_name="b", **config)
        gate = WatchedGate(self.config)
        self.said = gate.said
        self.clock = ManualClock()
        self.stored = 0
        self.judge = FastFailure(
            self.config,
            (Waiting(), self.waits),
            self.clock,
            gate,
            lambda: 1000,
            lambda: self.stored,
        )

    def look(self, lag_s: float = 0.0, *, oldest_s: float = 0.0, waiting: int = 0) -> None:
        self.waits.oldest_wait_s, self.waits.waiting = oldest_s, waiting
        self.judge.look(lag_s)


TEXT = "broker busy, start flow control for a while, period in queue: {}ms, size of queue: {}"


def test_the_oldest_send_without_an_answer_counts() -> None:
    judged = Judged()
    judged.look(oldest_s=0.199, waiting=1)
    assert judged.said == []
    judged.look(oldest_s=0.25, waiting=7)
    judged.look(oldest_s=0.25, waiting=7)
    judged.look(oldest_s=0.1, waiting=1)
    assert judged.said == ["[TIMEOUT_CLEAN_QUEUE]" + TEXT.format(250, 7), None]


def test_a_loop_that_is_late_once_is_a_pause_twice_is_load() -> None:
    judged = Judged()
    judged.look(0.5)
    judged.look()
    assert judged.said == []
    judged.look(0.3)
    judged.look(0.4)
    assert judged.said == ["[TIMEOUT_CLEAN_QUEUE]" + TEXT.format(300, 0)]
    judged.look(1.2)
    judged.look(1.1)
    assert judged.said[1:] == [
        "[TIMEOUT_CLEAN_QUEUE]" + TEXT.format(400, 0),
        "[PCBUSY_CLEAN_QUEUE]" + TEXT.format(1100, 0),
    ]
    judged.look()
    assert judged.said[3:] == [None]


def test_the_limit_may_change_and_all_of_it_be_switched_off() -> None:
    judged = Judged()
    judged.config.wait_time_mills_in_send_queue = 500
    judged.look(oldest_s=0.4, waiting=1)
    assert judged.said == []
    judged.look(oldest_s=0.6, waiting=1)
    judged.config.broker_fast_failure_enable = False
    judged.look(oldest_s=0.6, waiting=1)
    assert [each is None for each in judged.said] == [False, True]


def test_it_rests_while_nobody_sends() -> None:
    async def run() -> None:
        judged = Judged()
        clock = judged.clock

        async def pause() -> float:
            """Until it looks the next time; time goes on until then."""
            while clock.next_due is None:
                await asyncio.sleep(0)
            seconds = clock.next_due - clock.monotonic()
            clock.advance(seconds)
            for _turn in range(3):
                await asyncio.sleep(0)
            return round(seconds, 6)

        service = asyncio.ensure_future(judged.judge.run())
        assert [await pause() for _ in range(3)] == [LOOK_S, REST_S, REST_S]
        judged.waits.waiting = 1
        assert [await pause() for _ in range(3)] == [REST_S, LOOK_S, LOOK_S]
        judged.waits.waiting, judged.stored = 0, 1
        assert [await pause() for _ in range(3)] == [LOOK_S, LOOK_S, REST_S]
        judged.waits.waiting, judged.waits.oldest_wait_s = 1, 1.0
        assert [await pause() for _ in range(2)] == [REST_S, LOOK_S]
        judged.waits.waiting = 0
        assert await pause() == LOOK_S, "it has to take messages again"
        service.cancel()
        await asyncio.wait([service])

    asyncio.run(run())


# -- a whole broker on a slow disk


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def pass_time(world: SimBroker, seconds: float) -> None:
    """In steps, so that whoever looks at the clock is never late."""
    for _ in range(round(seconds / LOOK_S)):
        world.clock.advance(LOOK_S)
        for _turn in range(5):
            await asyncio.sleep(0)


def send_soon(
    client: SimClient, code: RequestCode = RequestCode.SEND_MESSAGE
) -> asyncio.Future[Response]:
    header = SendMessageRequest(
        producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0,
    )  # fmt: skip
    return asyncio.ensure_future(client.ask(code, header, b"x"))


def test_a_slow_disk(tmp_path: Path) -> None:
    async def run() -> None:
        disk = SlowDisk()
        config = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        async with sim_broker(tmp_path, store=config, disk=disk) as world:
            store, judge = world.broker.store, world.broker.sends.fast_failure
            services = [asyncio.ensure_future(store.run()), asyncio.ensure_future(judge.run())]
            client = world.connect()
            try:
                await asyncio.sleep(0)
                assert (await send_soon(client)).code == 0
                disk.go_on.clear()
                first = send_soon(client)
                await until(lambda: judge.waiting == 1)
                await pass_time(world, 0.15)
                second = send_soon(client)
                await until(lambda: judge.waiting == 2)
                assert judge.oldest_wait_ms in (149, 150)
                await pass_time(world, 0.1)
                stored = store.max_phy_offset
                refused = await send_soon(client)
                assert refused.code == 2
                assert refused.remark is not None
                assert refused.remark.startswith(
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in "
                    "queue: 2"
                )
                assert refused.remark.endswith("ms, size of queue: 2")
                assert refused.ext_fields.get("MSG_REGION") == "DefaultRegion"
                back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
                assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 2
                assert store.max_phy_offset == stored
                assert not first.done()
                disk.go_on.set()
                assert [(await each).code for each in (first, second)] == [0, 0]
                assert (await send_soon(client)).code == 2  # until somebody has looked again
                await pass_time(world, LOOK_S)
                assert (await send_soon(client)).code == 0
            finally:
                disk.go_on.set()
                for service in services:
                    service.cancel()
                await asyncio.wait(services)

    asyncio.run(run())
