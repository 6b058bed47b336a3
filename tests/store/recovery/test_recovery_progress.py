"""What recovery tells while it reads."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.recovery.recovery_progress import RecoveryProgress

from ...sim import ManualClock
from ..world import STORE_HOST, config_of, crash, open_store, put_ok


def test_once_a_second_position_percent_and_speed(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    seen: list[tuple[int, int]] = []
    progress = RecoveryProgress(clock.monotonic, lambda offset, end: seen.append((offset, end)))
    with caplog.at_level(logging.INFO):
        for number in range(1, 10):
            progress(number * 10_000_000, 200_000_000, number * 100_000)
            clock.advance(0.5)
    assert len(seen) == 9
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert told[0] == "recovery position=30000000 of 200000000 (15.0 %) 20 MB/s 200000 records/s"


def test_a_second_reading_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    progress = RecoveryProgress(clock.monotonic)
    with caplog.at_level(logging.INFO):
        for offset, records in ((5_000_000, 50), (0, 0), (2_000_000, 10)):
            progress(offset, 5_000_000, records)
            clock.advance(1)
    assert [record.getMessage() for record in caplog.records] == [
        "recovery position=2000000 of 5000000 (40.0 %) 2 MB/s 10 records/s"
    ]


def test_opening_tells_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(200):
        put_ok(store, body=bytes(100))
    end = store.max_phy_offset
    crash(store)
    seen: list[tuple[int, int]] = []
    clock = ManualClock()
    store = MessageStore.open(
        config_of(tmp_path), clock, store_host=STORE_HOST, progress=lambda *at: seen.append(at)
    )
    store.close()
    assert seen
    assert 0 < seen[0][0] <= seen[-1][0] <= end <= seen[-1][1]
