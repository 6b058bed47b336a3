"""Counters, rates and the table that the tools print."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.broker.config import BrokerConfig
from aiorocketmq.broker.runtime_info import (
    DiskFigures,
    StoreFigures,
    run_time_text,
    runtime_info,
    size_text,
    used_ratio,
)
from aiorocketmq.broker.stats import BrokerStats, StatsSampler, rates_text

from ..sim import ManualClock

KEYS = {
    "bootTimestamp", "runtime", "putMessageEntireTimeMax", "putMessageTimesTotal", "putMessageFailedTimes",
    "putMessageSizeTotal", "putMessageDistributeTime", "putMessageAverageSize", "dispatchMaxBuffer",
    "getMessageEntireTimeMax", "putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps", "putLatency99",
    "putLatency999", "commitLogDiskRatio", "commitLogDiskRatio_/store/commitlog", "consumeQueueDiskRatio",
    "commitLogMinOffset", "commitLogMaxOffset", "brokerVersionDesc", "brokerVersion", "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow", "sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity", "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity", "queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity", "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity", "dispatchBehindBytes", "pageCacheLockTimeMills",
    "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueHeadWaitTimeMills",
    "earliestMessageTimeStamp", "startAcceptSendRequestTimeStamp", "remainTransientStoreBufferNumbs",
    "remainHowManyDataToFlush", "commitLogDirCapacity",
}  # fmt: skip
"""What a broker of the original answers before anything was scheduled (captured)."""


def test_rates_are_differences_of_samples() -> None:
    stats, clock = BrokerStats(), ManualClock()
    sampler = StatsSampler(stats, clock)
    for _ in range(61):
        sampler.sample()
        stats.put_messages += 50
        stats.get_found += 2
        clock.advance(1.0)
    ten, sixty, six_hundred = sampler.rates()
    assert ten is not None
    assert sixty is not None
    assert six_hundred is None
    assert (ten.put, ten.get_found, ten.get_miss) == (50.0, 2.0, 0.0)
    assert sixty.put == 50.0
    assert rates_text([ten, sixty, six_hundred], "put") == "50.0 50.0 "


def test_rates_of_a_young_broker_are_blank() -> None:
    sampler = StatsSampler(BrokerStats(), ManualClock())
    assert rates_text(sampler.rates(), "put") == "  "
    sampler.sample()
    assert rates_text(sampler.rates(), "put") == "  "


def table(stats: BrokerStats) -> dict[str, str]:
    store = StoreFigures(Path("/store/commitlog"), 0, 3000, 1464, 3000, 17, 0)
    disk = DiskFigures(252 * 1024**3, 66 * 1024**3, 0.35)
    return runtime_info(BrokerConfig(), stats, [None] * 3, store, disk, boot_timestamp_ms=1000, now_ms=76_000)


def test_the_table_has_every_key_and_only_text() -> None:
    found = table(BrokerStats())
    assert set(found) == KEYS
    assert all(type(value) is str for value in found.values())


def test_values_of_the_table() -> None:
    stats = BrokerStats()
    stats.put_messages, stats.put_bytes, stats.get_messages = 83, 25662, 113
    found = table(stats)
    assert found["putMessageTimesTotal"] == found["msgPutTotalTodayNow"] == "83"
    assert found["msgGetTotalTodayNow"] == "113"
    assert found["putMessageAverageSize"] == "309.1807228915663"
    assert found["remainHowManyDataToFlush"] == "1.5 KiB"
    assert found["commitLogDirCapacity"] == "Total : 252.0 GiB, Free : 66.0 GiB."
    assert found["runtime"] == "[ 0 days, 0 hours, 1 minutes, 15 seconds ]"
    assert found["getTotalTps"] == "0.0 0.0 0.0"
    assert found["brokerVersionDesc"] == "V4_9_8"


def test_nothing_put_yet_counts_as_one_for_the_average() -> None:
    found = table(BrokerStats())
    assert (found["putMessageTimesTotal"], found["msgPutTotalTodayNow"]) == ("1", "0")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (252 * 1024**3, "252.0 GiB")]
)
def test_size_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_run_time_text() -> None:
    assert run_time_text((((2 * 24 + 3) * 60 + 4) * 60 + 5) * 1000 + 999) == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"


@pytest.mark.parametrize(("used", "free", "ratio"), [(0, 100, 0.0), (35, 65, 0.35), (351, 649, 0.36), (0, 0, -1.0)])
def test_used_ratio_is_rounded_up(used: int, free: int, ratio: float) -> None:
    assert used_ratio(used, free) == ratio


def test_the_disk_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    assert DiskFigures.of(tmp_path / "a" / "b").total_bytes > 0
