"""Delayed messages in a broker whose clock the test owns (``broker-services.md`` §3): they come at
their time, in order, as what was sent."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.schedule.level import Level
from aiorocketmq.broker.schedule.schedule import Schedule
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets
from aiorocketmq.remoting.clock import Timer
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.store.model.put import PutMessage

from ..schedule_scenes import SCHEDULE, bodies, deliver, messages, play
from ..sim_broker import SimBroker, SimClient


def test_a_message_comes_at_its_time_and_is_what_was_sent(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        properties = "KEYS\x01k\x02WAIT\x01true\x02DELAY\x012\x02TAGS\x01TagA"
        first = await client.send("T", b"one", queue_id=3, properties=properties)
        second = await client.send("T", b"two", queue_id=1, properties=properties)
        assert (first.queue_id, first.queue_offset, second.queue_id, second.queue_offset) == (
            3,
            0,
            1,
            1,
        )
        sent_at = sim.clock.time_ms()
        [entry, _] = sim.broker.store.entries.some(SCHEDULE, 1, 0, 9) or []
        assert entry[2] == sent_at + 5_000
        assert deliver(sim) == 1.0  # the empty level of 1 s
        sim.clock.advance(4.999)
        assert deliver(sim) == 0.001
        assert bodies(sim, queue_id=3) == []
        sim.clock.advance(0.001)
        deliver(sim)
        [message] = messages(sim, queue_id=3)
        assert (message.body, message.store_timestamp - sent_at) == (b"one", 5_000)
        assert (message.born_timestamp, message.born_host, message.reconsume_times) == (
            1,
            client.connection.local,
            0,
        )
        assert message.properties == {
            "KEYS": "k", "WAIT": "true", "DELAY": "2", "TAGS": "TagA", "CLUSTER": "C",
            "REAL_TOPIC": "T", "REAL_QID": "3",
        }  # fmt: skip
        assert sim.broker.store.get("T", 3, 0, tags=frozenset({tags_code("TagA")})).count == 1
        assert bodies(sim, queue_id=1) == [b"two"]

    play(tmp_path, scene)


def test_who_waited_for_a_topic_that_was_deleted_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        for topic in ("T", "U"):
            await client.send(topic, b"late", properties="DELAY\x011")
        sim.broker.state.topics.delete("U")
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim) == bodies(sim, "U") == [b"late"]
        told = [each.getMessage() for each in caplog.records if "was deleted" in each.getMessage()]
        assert [text.rpartition("topic=")[2] for text in told] == ["U"]

    play(tmp_path, scene)


def test_messages_of_a_level_that_is_not_configured_any_more_come_at_their_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"20 s", properties="DELAY\x013")
        await client.send("T", b"30 s", properties="DELAY\x014")
        await client.send("T", b"30 s, too", properties="DELAY\x014")

    async def after(sim: SimBroker, client: SimClient) -> None:
        service = asyncio.create_task(sim.broker.storage.schedule.run())
        for seconds, expected in (
            (19.9, []), (0.1, [b"20 s"]), (9.9, [b"20 s"]), (0.1, [b"20 s", b"30 s", b"30 s, too"]),
        ):  # fmt: skip
            await asyncio.sleep(0)
            sim.clock.advance(seconds)
            deliver(sim)
            assert bodies(sim) == expected
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        assert [each.message for each in caplog.records if "does not have" in each.message] == [
            "delayed messages wait in levels that messageDelayLevel does not have any more, they "
            "come at their time levels=3,4"
        ]

    play(tmp_path, before, levels="1s 5s 20s 30s")
    play(tmp_path, after, levels="1s 5s")


def test_fields_of_every_kind_survive(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, _client: SimClient) -> None:
        flags = (
            MessageSysFlag.TRANSACTION_COMMIT
            | MessageSysFlag.COMPRESSED
            | MessageSysFlag.COMPRESSION_LZ4
        )
        sim.broker.store.put_message(PutMessage(
            SCHEDULE, 0, b"packed", b"REAL_TOPIC\x01T\x02REAL_QID\x010", pack_host("::1", 7), 5, 6,
            7,
            flag=8, sys_flag=flags | MessageSysFlag.STORE_HOST_V6, reconsume_times=9,
            prepared_transaction_offset=10,
        ))  # fmt: skip
        deliver(sim)
        [message] = messages(sim)
        assert (message.stored_body, message.flag, message.reconsume_times) == (b"packed", 8, 9)
        assert (
            message.sys_flag == flags | MessageSysFlag.BORN_HOST_V6
        )  # the broker has another address now
        assert (message.born_host, message.born_timestamp, message.prepared_transaction_offset) == (
            "[::1]:7",
            5,
            0,
        )

    play(tmp_path, scene)


def test_levels_of_any_kind_in_order_and_never_early(tmp_path: Path) -> None:
    chance = random.Random(7)
    sent: list[tuple[int, int]] = []

    async def scene(sim: SimBroker, client: SimClient) -> None:
        for number in range(600):
            level = chance.randint(1, 6)
            await client.send("T", f"{number} {level}".encode(), properties=f"DELAY\x01{level}")
            sent.append((level, sim.clock.time_ms()))
            sim.clock.advance(chance.choice((0, 0.001, 0.05, 0.4)))
            deliver(sim)
        while (wait := deliver(sim)) and len(messages(sim)) < len(sent):
            sim.clock.advance(wait)
        delays = {1: 1_000, 2: 5_000, 3: 10_000, 4: 30_000, 5: 30_000, 6: 30_000}
        arrived: dict[int, list[int]] = {}
        for message in messages(sim):
            number, level = map(int, message.body.split())
            arrived.setdefault(min(level, 4), []).append(number)
            late = message.store_timestamp - sent[number][1] - delays[level]
            assert 0 <= late <= 400
        assert sum(map(len, arrived.values())) == len(sent)
        assert all(numbers == sorted(numbers) for numbers in arrived.values())

    play(tmp_path, scene)


def test_exact_deadlines_when_it_may_sleep_as_it_likes(tmp_path: Path) -> None:
    """What arrives while it sleeps in front of an empty level is not late either."""
    chance = random.Random(3)

    async def scene(sim: SimBroker, client: SimClient) -> None:
        running = asyncio.create_task(sim.broker.storage.schedule.run())
        sent: list[int] = []
        for number in range(200):
            await client.send("T", b"%d" % number, properties=f"DELAY\x01{chance.randint(1, 3)}")
            sent.append(sim.clock.time_ms())
            for _ in range(chance.randint(0, 300)):
                sim.clock.advance(0.001)
                for _ in range(4):
                    await asyncio.sleep(0)
        for _ in range(10_100):
            sim.clock.advance(0.001)
            for _ in range(4):
                await asyncio.sleep(0)
        delays = {"1": 1_000, "2": 5_000, "3": 10_000}
        found = messages(sim)
        assert sorted(int(message.body) for message in found) == list(range(200))
        lateness = {
            m.store_timestamp - sent[int(m.body)] - delays[m.properties["DELAY"]] for m in found
        }
        assert lateness <= {0, 1}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(tmp_path, scene)


def test_progress_survives_a_restart(tmp_path: Path) -> None:
    async def first(sim: SimBroker, client: SimClient) -> None:
        for number in range(10):
            await client.send("T", b"%d" % number, properties="DELAY\x011")
            sim.clock.advance(0.1)
        sim.clock.advance(0.5)
        deliver(sim)
        assert len(bodies(sim)) == 6

    async def second(sim: SimBroker, client: SimClient) -> None:
        answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert decode_body(DelayOffsetTable, answer.check().body).offset_table == {1: 6}
        sim.clock.advance(60)
        deliver(sim)
        assert bodies(sim) == [b"%d" % number for number in range(10)]
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = decode_body(KVTable, answer.check().body).table
        assert {k: v for k, v in table.items() if k.startswith("schedule")} == {
            "scheduleMessageOffset_1": "10,10"
        }

    play(tmp_path, first, second)
    assert (tmp_path / "config/delayOffset.json").read_text() == '{\n\t"offsetTable":{1:10\n\t}\n}'


def test_the_file_never_says_more_than_the_disk_has(tmp_path: Path) -> None:
    """What is written after a sync is what was delivered before it."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        persistence = sim.broker.storage.delay_offset_persistence
        file = sim.broker.tables.delay_offsets_file
        await client.send("T", b"1", properties="DELAY\x011")
        await client.send("T", b"2", properties="DELAY\x012")
        sim.clock.advance(1)
        deliver(sim)
        persistence.check()
        assert not file.dirty  # the disk has not answered yet
        sim.clock.advance(4)
        deliver(sim)
        syncing = asyncio.create_task(sim.broker.store.run())
        while not file.dirty and not (tmp_path / "config/delayOffset.json").exists():
            await asyncio.sleep(0.001)
        await file.saved()
        assert json.loads(
            (tmp_path / "config/delayOffset.json").read_text().replace("1:", '"1":')
        ) == {"offsetTable": {"1": 1}}
        persistence.check()
        while sim.broker.tables.delay_offsets.safe_record().offset_table != {1: 1, 2: 1}:
            await asyncio.sleep(0.001)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)

    play(tmp_path, scene)


def test_offsets_that_the_queue_does_not_have_are_corrected_at_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/delayOffset.json").write_text(
        '{"dataVersion":{"counter":1},"offsetTable":{1:5,4:7,40:2}}'
    )

    async def scene(sim: SimBroker, client: SimClient) -> None:
        assert sim.broker.tables.delay_offsets.table() == {1: 0, 4: 0, 40: 0}
        await client.send("T", b"1", properties="DELAY\x011")
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim) == [b"1"]

    play(tmp_path, scene)


def test_an_offset_that_was_corrected_is_not_there_again_after_a_kill(tmp_path: Path) -> None:
    """The queue has come to it by then."""
    killed = tmp_path / "killed"
    (tmp_path / "b/config").mkdir(parents=True)
    (tmp_path / "b/config/delayOffset.json").write_text('{"offsetTable":{"3":3}}')

    async def scene(sim: SimBroker, client: SimClient) -> None:
        await sim.broker.tables.delay_offsets_file.saved()
        for _ in range(4):
            await client.send("T", b"x", properties="DELAY\x013")
        sim.broker.storage.delay_offset_persistence.check()
        shutil.copytree(tmp_path / "b", killed)

    async def again(sim: SimBroker, _client: SimClient) -> None:
        assert sim.broker.tables.delay_offsets.table() == {3: 0}
        sim.clock.advance(100)
        deliver(sim)
        assert bodies(sim) == [b"x"] * 4

    play(tmp_path / "b", scene)
    play(killed, again)


@pytest.mark.parametrize("safe", [2, 7, 9])
def test_what_is_written_is_corrected_too(safe: int) -> None:
    offsets = DelayOffsets()
    offsets.load(DelayOffsetTable(offset_table={1: safe}))
    offsets.set(1, 9)
    assert offsets.correct(lambda _level: 7) is (safe == 9)
    assert (offsets.table(), offsets.safe_record().offset_table) == ({1: 7}, {1: min(safe, 7)})


def test_an_offset_in_front_of_its_queue_stays() -> None:
    """What lies there has expired, or is damaged and comes again: who looks for it knows."""
    offsets = DelayOffsets()
    offsets.set(1, 2)
    offsets.correct(lambda _level: 7)
    assert offsets.get(1) == 2


def test_a_level_looks_once_per_delay() -> None:
    level = Level(2, 5_000)
    assert level.is_due(0)
    level.look_at = 5_000
    assert [level.is_due(now) for now in (0, 4_999, 5_000, 9_999)] == [False, False, True, True]
    assert level.is_due(-1_001)


def test_a_slice_ends_when_its_time_is_over_and_every_level_has_a_turn(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        for number in range(20):
            await client.send("T", b"%d" % number, properties=f"DELAY\x01{number % 4 + 1}")
        sim.clock.advance(30)
        clock = SlowClock(sim)
        schedule = Schedule(
            (1_000, 5_000, 10_000, 30_000), sim.broker.tables.delay_offsets,
            sim.broker.storage.context, clock,
        )  # fmt: skip
        for turn in range(4):
            assert schedule.deliver_due() == 0
            assert len(bodies(sim)) == turn + 1
        assert set(sim.broker.tables.delay_offsets.table().values()) == {1}

    play(tmp_path, scene)


class SlowClock:
    """Every look at it takes longer than a slice."""

    def __init__(self, sim: SimBroker) -> None:
        self._sim = sim

    def time_ms(self) -> int:
        return self._sim.clock.time_ms()

    def monotonic(self) -> float:
        self._sim.clock._monotonic += 0.0011
        return self._sim.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._sim.clock.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self._sim.clock.call_later(seconds, callback)


def test_what_is_delivered_is_counted(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"1", properties="DELAY\x011")
        topics = sim.broker.state.topics
        schedule, topic = topics.get(SCHEDULE), topics.get("T")
        assert schedule is not None
        assert topic is not None
        assert (schedule.put_nums, topic.put_nums) == (1, 0)
        sim.clock.advance(1)
        deliver(sim)
        stats = sim.broker.monitoring.stats
        assert (schedule.put_nums, topic.put_nums, stats.put_messages) == (1, 1, 2)
        got = stats.pulls[SCHEDULE, "SCHEDULE_CONSUMER"][0]
        assert (got.messages, got.size_bytes) == (1, topic.put_size_bytes)

    play(tmp_path, scene)


def test_a_pull_that_waits_is_answered(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        told: list[tuple[Any, ...]] = []
        sim.broker.store.arrivals.listeners.append(lambda *arrival: told.append(arrival))
        await client.send("T", b"1", properties="DELAY\x011\x02TAGS\x01a")
        sim.broker.store.arrivals.watch("T", 0)
        sim.clock.advance(1)
        deliver(sim)
        for _ in range(5):
            await asyncio.sleep(0)
        assert told == [("T", 0, 1, tags_code("a"), sim.clock.time_ms())]

    play(tmp_path, scene)
