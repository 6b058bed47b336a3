"""Delayed messages in a broker whose clock the test owns (``broker-services.md`` §3)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.schedule.level import CLOCK_TOLERANCE_MS, Level
from aiorocketmq.broker.schedule.schedule import RETRY_MS, Schedule
from aiorocketmq.remoting.clock import Timer
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import decode_properties, tags_code
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import ShortageError
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus

from ..schedule_scenes import SCHEDULE, bodies, deliver, messages, play, put_scheduled
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


@pytest.mark.parametrize("level", [-1, 1])
def test_a_message_that_claims_all_attempts_that_can_be_counted_is_taken_back(
    tmp_path: Path, level: int
) -> None:
    """Its consumer would give it back for ever, and never get past it."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        most = 2**31 - 1
        header = SendMessageRequest(
            producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=0, sys_flag=0, born_timestamp=1, flag=0, properties="A\x01b",
            reconsume_times=most,
        )  # fmt: skip
        (await client.ask(RequestCode.SEND_MESSAGE, header, b"x")).check()
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=level)
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        [letter] = messages(sim, "%DLQ%g")
        assert letter.reconsume_times == most

    play(tmp_path, scene)


def test_what_cannot_be_read_just_now_is_delivered_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"one", properties="DELAY\x011")
        sim.clock.advance(2)
        store = sim.broker.store
        for owner, name in ((store.entries, "some"), (store, "message_by_offset")):

            def fails(*_: object) -> None:
                raise ShortageError(tmp_path, "cannot be used: Too many open files")

            with monkeypatch.context() as patch:
                patch.setattr(owner, name, fails)
                assert deliver(sim) == RETRY_MS / 1000
                sim.clock.advance(RETRY_MS / 1000)
                deliver(sim)
                sim.clock.advance(RETRY_MS / 1000)
        deliver(sim)
        assert bodies(sim) == [b"one"]

    with caplog.at_level("INFO", "aiorocketmq.broker.schedule"):
        play(tmp_path, scene)
    told = [r.getMessage() for r in caplog.records if "cannot be read" in r.getMessage()]
    assert len(told) == 2
    assert told[1].startswith("over: delayed messages cannot be read, their level waits for it")


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


def test_expired_messages_are_passed_over(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        for number in range(5):
            await client.send("T", b"%d" % number, properties="DELAY\x011")
        queue = sim.broker.store._table[SCHEDULE, 0]
        queue.min_offset = 3
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim) == [b"3", b"4"]

    play(tmp_path, scene)


def test_a_full_disk_stops_a_level_and_not_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        store = sim.broker.store
        for number in range(3):
            await client.send("T", b"%d" % number, properties="DELAY\x011")
        await client.send("T", b"other", properties="DELAY\x012")
        sim.clock.advance(1)
        store._writer.refusal = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="full")
        assert deliver(sim) == RETRY_MS / 1000
        assert (bodies(sim), sim.broker.tables.delay_offsets.get(1)) == ([], 0)
        sim.clock.advance(0.1)
        assert deliver(sim) == RETRY_MS / 1000
        store._writer.refusal = None
        sim.clock.advance(0.1)
        deliver(sim)
        assert bodies(sim) == [b"0", b"1", b"2"]

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "properties",
    [
        "REAL_QID\x010",
        "REAL_TOPIC\x01T",
        "REAL_TOPIC\x01T\x02REAL_QID\x01-1",
        "REAL_TOPIC\x01T\x02REAL_QID\x01first",
        "REAL_TOPIC\x01../T\x02REAL_QID\x010",
        "REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010",
    ],
)
def test_what_has_no_place_to_go_does_not_hold_up_the_others(
    tmp_path: Path, properties: str
) -> None:
    async def scene(sim: SimBroker, _client: SimClient) -> None:
        put_scheduled(sim, properties, 1)
        put_scheduled(sim, "REAL_TOPIC\x01T\x02REAL_QID\x010", 1)
        deliver(sim)
        assert bodies(sim) == [b"x"]
        assert sim.broker.store.max_offset("RMQ_SYS_TRANS_HALF_TOPIC", 0) == 0

    play(tmp_path, scene)


def test_times_of_delivery_that_cannot_be(tmp_path: Path) -> None:
    """Further away than the level waits: at once. An address in an extension file: from the record.
    None: at once."""

    async def scene(sim: SimBroker, _client: SimClient) -> None:
        now = sim.clock.time_ms()
        place = "REAL_QID\x010\x02REAL_TOPIC\x01"
        put_scheduled(sim, place + "far", now + 3_600_000, level=1)
        put_scheduled(sim, place + "ext", -(2**40), level=2)
        put_scheduled(sim, place + "none", 0, level=3)
        put_scheduled(sim, place + "nearly", now + 30_000 + CLOCK_TOLERANCE_MS, level=4)
        deliver(sim)
        assert [bodies(sim, topic) for topic in ("far", "ext", "none", "nearly")] == [
            [b"x"],
            [],
            [b"x"],
            [],
        ]
        sim.clock.advance(4.999)
        deliver(sim)
        assert bodies(sim, "ext") == []
        sim.clock.advance(0.001)
        deliver(sim)
        assert bodies(sim, "ext") == [b"x"]

    play(tmp_path, scene)


def test_lost_messages_are_passed_over_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their numbers lead to the record behind them, which must not come twice."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        store = sim.broker.store
        store.arrivals.watch(SCHEDULE, 0)
        store._table[SCHEDULE, 0].fill_to(2, 0)
        await client.send("T", b"1", properties="DELAY\x011")
        sim.clock.advance(1)
        deliver(sim)
        assert (bodies(sim), sim.broker.tables.delay_offsets.get(1)) == ([b"1"], 3)
        [line] = [each for each in caplog.messages if "are lost" in each]
        assert "level=1 count=2 offsets=0..1" in line

    play(tmp_path, scene)


def test_a_damaged_message_that_others_of_a_group_may_have_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        store = sim.broker.store
        store._reader.awaited = lambda: store.damage.unasked  # as of a leader
        for number in range(3):
            await client.send("T", b"body %d" % number, properties="DELAY\x011")
        log = store._log.buffer
        at = bytes(log).index(b"body 1")
        log[at] ^= 1
        sim.clock.advance(1)
        for _ in range(3):
            deliver(sim)
            assert bodies(sim) == [b"body 0"]
            sim.clock.advance(1)
        [place] = store.damage.unasked
        log[at] ^= 1
        store.damage.mend(place)
        deliver(sim)
        assert bodies(sim) == [b"body 0", b"body 1", b"body 2"]
        assert "are lost" not in caplog.text

        await client.send("T", b"body 3", properties="DELAY\x011")
        log[bytes(log).rindex(b"body 3")] ^= 1
        sim.clock.advance(1)
        deliver(sim)
        [place] = store.damage.unasked
        store.damage.is_asked_for(place)
        sim.clock.advance(1)
        deliver(sim)
        assert len(bodies(sim)) == 3
        assert "are lost" in caplog.text

    play(tmp_path, scene)


def test_a_clock_that_is_set_back_stops_nothing(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        deliver(sim)
        sim.clock._time_ms -= 3_600_000
        await client.send("T", b"1", properties="DELAY\x011")
        assert deliver(sim) == 1.0
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim) == [b"1"]

    play(tmp_path, scene)


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


# -- given back by consumers
# -----------------------------------------------------------------------------------------


def test_the_whole_life_of_a_message_that_nobody_can_consume(tmp_path: Path) -> None:
    """16 attempts, each after a longer time, then the dead letter queue."""
    levels = MessageStoreConfig().message_delay_level
    seconds = {"s": 1, "m": 60, "h": 3600}
    table = [int(part[:-1]) * seconds[part[-1]] for part in levels.split()]

    async def scene(sim: SimBroker, client: SimClient) -> None:
        sent = await client.send("T", b"x", properties="TAGS\x01a")
        [message] = messages(sim)
        waited = []
        for attempt in range(16):
            back = ConsumerSendMsgBackRequest(
                offset=message.commit_log_offset, group="g", delay_level=0
            )
            (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
            given_back = sim.clock.time_ms()
            while len(messages(sim, "%RETRY%g")) == attempt:
                sim.clock.advance(deliver(sim))
            message = messages(sim, "%RETRY%g")[attempt]
            assert (message.reconsume_times, message.properties["ORIGIN_MESSAGE_ID"]) == (
                attempt + 1,
                sent.msg_id,
            )
            assert (message.properties["RETRY_TOPIC"], message.tags) == ("T", "a")
            waited.append((message.store_timestamp - given_back) // 1000)
        assert waited == table[2:18]
        back = ConsumerSendMsgBackRequest(
            offset=message.commit_log_offset, group="g", delay_level=0
        )
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        [dead] = messages(sim, "%DLQ%g")
        assert (dead.reconsume_times, dead.body) == (17, b"x")
        assert decode_properties(dead.raw_properties)["DELAY"] == "0"

    play(tmp_path, scene, levels=levels)


def test_a_consumer_may_choose_the_delay(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"x")
        for level, queue_id in ((1, 0), (4, 3), (99, 3)):
            back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=level)
            (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
            assert messages(sim, SCHEDULE, queue_id)[-1].properties["DELAY"] == str(queue_id + 1)

    play(tmp_path, scene)
