"""Counters, rates and the table that the tools print."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.monitoring.runtime_info import (
    DiskFigures,
    Disks,
    RuntimeInfo,
    run_time_text,
    size_text,
    used_ratio,
)
from aiorocketmq.broker.stats import broker_stats as stats_module
from aiorocketmq.broker.stats.broker_stats import (
    BrokerStats,
    DayTotals,
    PutTimes,
    StatsSampler,
    next_midnight_ms,
    rates_text,
)

from ...sim import ManualClock

KEYS = {
    "bootTimestamp", "runtime", "putMessageEntireTimeMax", "putMessageTimesTotal",
    "putMessageFailedTimes",
    "putMessageSizeTotal", "putMessageDistributeTime", "putMessageAverageSize", "dispatchMaxBuffer",
    "getMessageEntireTimeMax", "putTps", "getFoundTps", "getMissTps", "getTotalTps",
    "getTransferedTps", "putLatency99",
    "putLatency999", "commitLogDiskRatio", "commitLogDiskRatio_/store/commitlog",
    "consumeQueueDiskRatio",
    "commitLogMinOffset", "commitLogMaxOffset", "brokerVersionDesc", "brokerVersion",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow", "sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity", "queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity", "dispatchBehindBytes", "pageCacheLockTimeMills",
    "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "earliestMessageTimeStamp", "startAcceptSendRequestTimeStamp",
    "remainTransientStoreBufferNumbs",
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


DISK = DiskFigures(252 * 1024**3, 66 * 1024**3, 0.35)


def table(
    stats: BrokerStats, put_times: PutTimes | None = None, disks: Disks | None = None
) -> dict[str, str]:
    store: Any = SimpleNamespace(
        min_phy_offset=0,
        max_phy_offset=3000,
        flushed_offset=1464,
        entries=SimpleNamespace(log_begins_at=lambda: 17),
        damage=SimpleNamespace(found=0, mended=0),
    )
    disks = disks or Disks({Path("/store/commitlog"): DISK}, DISK)
    days: DayTotals = DayTotals(0)
    load: Any = SimpleNamespace(waiting=3, oldest_wait_ms=150, lag_ms=7)
    sampler: Any = SimpleNamespace(rates=lambda: [None] * 3, days=days, put_times=put_times)
    schedule: Any = SimpleNamespace(figures=dict)
    clock = ManualClock(1000)
    info = RuntimeInfo(BrokerConfig(), store, stats, sampler, load, schedule, clock)
    clock.advance(75)
    return info.table_with(disks)


def test_the_table_has_every_key_and_only_text() -> None:
    found = table(BrokerStats())
    assert set(found) == KEYS | {"leaves"}
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
    assert (found["sendThreadPoolQueueSize"], found["sendThreadPoolQueueHeadWaitTimeMills"]) == (
        "3",
        "150",
    )
    assert found["pageCacheLockTimeMills"] == "7"
    assert (found["putMessageDistributeTime"], found["putLatency99"]) == ("null", "0.00")


def test_how_long_sends_waited_for_the_disk() -> None:
    times = PutTimes()
    times.add({0: 1, 9: 5, 10: 2, 5000: 1}, sends=1000)
    assert times.text() == (
        "[<=0ms]:992 [0~10ms]:5 [10~50ms]:2 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 "
        "[1~2s]:0 [2~3s]:0 "
        "[3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:0 "
    )
    assert (times.p99_ms, times.p999_ms) == (0.0, 10.0)
    times.add({20_000: 3}, sends=1003)
    assert times.text().endswith("[5~10s]:1 [10s~]:3 ")
    found = table(BrokerStats(), times)
    assert (found["putLatency99"], found["putLatency999"]) == ("20000.00", "20000.00")
    assert found["putMessageDistributeTime"] == times.text()


def test_a_batch_waits_once() -> None:
    stats = BrokerStats()
    sampler = StatsSampler(stats, ManualClock(), lambda: {20: 10})
    stats.put_messages, stats.batched_messages = 1000, 990
    for _ in range(10):
        sampler.sample()
    times = sampler.put_times
    assert times is not None
    assert (times.buckets[:3], times.p99_ms) == ([0, 0, 10], 20.0)


def test_the_sampler_asks_for_the_waits_every_ten_seconds() -> None:
    stats, clock = BrokerStats(), ManualClock()
    waits = [{7: 1}, {30: 2}]
    sampler = StatsSampler(stats, clock, lambda: waits.pop(0))
    stats.put_messages = 10
    for _ in range(9):
        sampler.sample()
    assert sampler.put_times is None
    sampler.sample()
    assert sampler.put_times is not None
    assert sampler.put_times.buckets[:3] == [9, 1, 0]
    for _ in range(10):
        sampler.sample()
    assert sampler.put_times.buckets[:3] == [9, 1, 2]
    assert stats.put_time_max_ms == 30


def test_totals_move_on_at_midnight() -> None:
    start = 1_700_000_000_000
    days = DayTotals(start)
    midnight = next_midnight_ms(start)
    local = datetime.datetime.fromtimestamp(midnight / 1000).astimezone()
    assert (local.hour, local.minute, local.second) == (0, 0, 0)
    assert 0 < midnight - start <= 25 * 3600_000
    days.look(midnight - 1, 5, 6)
    assert (days.put_today_morning, days.get_today_morning) == (0, 0)
    days.look(midnight, 10, 20)
    days.look(midnight + 1000, 11, 21)
    assert (days.put_yesterday_morning, days.put_today_morning, days.get_today_morning) == (
        0,
        10,
        20,
    )
    days.look(next_midnight_ms(midnight), 30, 40)
    assert (days.put_yesterday_morning, days.put_today_morning) == (10, 30)
    assert (days.get_yesterday_morning, days.get_today_morning) == (20, 40)


def test_nothing_put_yet_counts_as_one_for_the_average() -> None:
    found = table(BrokerStats())
    assert (found["putMessageTimesTotal"], found["msgPutTotalTodayNow"]) == ("1", "0")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (252 * 1024**3, "252.0 GiB"),
    ],
)
def test_size_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_run_time_text() -> None:
    assert (
        run_time_text((((2 * 24 + 3) * 60 + 4) * 60 + 5) * 1000 + 999)
        == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"
    )


@pytest.mark.parametrize(
    ("used", "free", "ratio"), [(0, 100, 0.0), (35, 65, 0.35), (351, 649, 0.36), (0, 0, -1.0)]
)
def test_used_ratio_is_rounded_up(used: int, free: int, ratio: float) -> None:
    assert used_ratio(used, free) == ratio


def test_the_disk_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    assert DiskFigures.of(tmp_path / "a" / "b").total_bytes > 0


def test_each_disk_of_a_store_is_told() -> None:
    """The log on two disks, what is made of it on a third."""
    a, b = DiskFigures(100, 5, 0.95), DiskFigures(200, 80, 0.6)
    found = table(BrokerStats(), disks=Disks({Path("/a"): a, Path("/b"): b}, DISK))
    ratios = {name: value for name, value in found.items() if "DiskRatio" in name}
    assert ratios == {
        "commitLogDiskRatio": "0.6",
        "commitLogDiskRatio_/a": "0.95",
        "commitLogDiskRatio_/b": "0.6",
        "consumeQueueDiskRatio": "0.35",
    }
    assert found["commitLogDirCapacity"] == "Total : 200 B, Free : 80 B."


def test_what_is_beyond_the_limit_is_counted_for_the_broker_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stats_module, "MAX_PULL_COUNTERS", 2)
    monkeypatch.setattr(stats_module, "MAX_SEND_BACKS", 1)
    stats = BrokerStats()
    for queue_id in range(3):
        stats.pull_counter("T", "g", queue_id).pulls += 1
    assert [counter.queue_id for counter in stats.pulls_of("T", "g")] == [0, 1]
    assert stats.pull_counter("T", "g", 1).pulls == 1
    assert stats.pull_counter("T", "g", 2).pulls == 0
    for group in ("g", "h", "g"):
        stats.sent_back("T", group)
    assert stats.send_backs == {("T", "g"): 2}
    stats.forget_topic("T")
    assert (stats.send_backs, stats.pull_counters) == ({}, 0)
    stats.pull_counter("U", "g", 0).pulls += 1
    assert stats.pull_counters == 1
    assert stats.pull_counter("U", "g", 0).pulls == 1
