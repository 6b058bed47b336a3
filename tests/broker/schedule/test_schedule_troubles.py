"""Delayed messages that are damaged, lost, expired or have no place to go, disks that are full, and
clocks that are set back: the others come all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.broker.schedule.level import CLOCK_TOLERANCE_MS
from aiorocketmq.broker.schedule.schedule import RETRY_MS
from aiorocketmq.store.model.errors import ShortageError
from aiorocketmq.store.model.status import PutResult, PutStatus

from ..schedule_scenes import SCHEDULE, bodies, deliver, play, put_scheduled
from ..sim_broker import SimBroker, SimClient


def test_what_cannot_be_read_just_now_is_delivered_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"one", properties="DELAY\x011")
        sim.clock.advance(2)
        store = sim.broker.store
        for owner, name in ((store.entries, "some"), (store, "read")):

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


def test_nothing_has_expired_while_the_first_may_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is damaged, so its queue begins behind it."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        store = sim.broker.store
        for number in range(2):
            await client.send("T", b"%d" % number, properties="DELAY\x011")
        queue = store._table[SCHEDULE, 0]
        queue.min_offset = 1
        sim.clock.advance(1)
        with monkeypatch.context() as patch:
            patch.setattr(store, "awaits_mending", lambda: True)
            deliver(sim)
            assert (bodies(sim), sim.broker.tables.delay_offsets.get(1)) == ([], 0)
        queue.min_offset = 0
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim) == [b"0", b"1"]

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


@pytest.mark.parametrize("before_body", [0, 84, 88], ids=["body", "magic", "size"])
def test_a_damaged_message_that_others_of_a_group_may_have_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, before_body: int
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        store = sim.broker.store
        store._reader.awaited = lambda: store.damage.unasked  # as of a leader
        for number in range(3):
            await client.send("T", b"body %d" % number, properties="DELAY\x011")
        log = store._log.buffer
        at = bytes(log).index(b"body 1") - before_body
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
