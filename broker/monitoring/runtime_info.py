"""The table that GET_BROKER_RUNTIME_INFO answers: every value a text (``broker-services.md`` §10).

What each key means here: ``docs/broker-runtime-info.md``.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.protocol.codes import VERSION, version_name
from ...remoting.protocol.leaves import KIND
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..schedule.schedule import Schedule
from ..sends.fast_failure import FastFailure
from ..stats.broker_stats import BrokerStats, StatsSampler, rates_text

_NO_TRANSIENT_POOL: Final = 2**31 - 1
"""What the original reports when it has no pool of off-heap buffers."""


class DiskFigures(NamedTuple):
    """Of the file system that a folder lies on."""

    total_bytes: int
    free_bytes: int
    used_ratio: float

    @staticmethod
    def of(path: Path) -> DiskFigures:
        """Blocks for as long as the file system takes. A path that is not there yet counts as its
        parent."""
        while not path.exists() and path != path.parent:
            path = path.parent
        try:
            usage = shutil.disk_usage(path)
        except OSError:
            return DiskFigures(0, 0, -1.0)
        return DiskFigures(usage.total, usage.free, used_ratio(usage.used, usage.free))


class Disks(NamedTuple):
    """What the store lies on."""

    logs: Mapping[Path, DiskFigures]
    """By folders that the commit log is written to."""
    queues: DiskFigures

    @staticmethod
    def of(store: MessageStore) -> Disks:
        """Blocks, see ``DiskFigures.of``."""
        logs = {folder: DiskFigures.of(folder) for folder in store.log_folders}
        return Disks(logs, DiskFigures.of(store.config.root))


def used_ratio(used: int, available: int) -> float:
    """Share of the space that is taken, in hundredths, rounded up as the original does
    (UtilAll)."""
    total = used + available
    return -(-used * 100 // total) / 100 if total else -1.0


class RuntimeInfo:
    """Asks all who know something. There are no thread pools: the queue of sends is those that wait
    for the disk, the others are empty."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        stats: BrokerStats,
        sampler: StatsSampler,
        load: FastFailure,
        schedule: Schedule,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._stats = stats
        self._sampler = sampler
        self._load = load
        self._schedule = schedule
        self._clock = clock
        self._boot_timestamp_ms = clock.time_ms()
        self.others: list[Callable[[], Mapping[str, str]]] = []
        """Who else has figures: transactions, a member of a group."""

    async def table(self) -> dict[str, str]:
        """All keys."""
        return self.table_with(await asyncio.to_thread(Disks.of, self._store))

    def table_with(self, disks: Disks) -> dict[str, str]:
        """The same, where the disks have been asked already."""
        table = {
            "bootTimestamp": self._boot_timestamp_ms,
            "runtime": run_time_text(self._clock.time_ms() - self._boot_timestamp_ms),
            "brokerVersion": VERSION,
            "brokerVersionDesc": version_name(VERSION),
            **self._of_puts(),
            **self._of_rates(),
            **self._of_the_store(disks),
            **self._of_queues(),
            "leaves": KIND,
            **dict.fromkeys(_ALWAYS_EMPTY, 0),
            **self._of_what_is_unusual(),
        }
        texts = {key: str(value) for key, value in table.items()} | self._schedule.figures()
        for each in self.others:
            texts.update(each())
        return texts

    def _of_puts(self) -> dict[str, object]:
        stats, put_times = self._stats, self._sampler.put_times
        times = max(1, stats.all_messages)
        return {
            "putMessageEntireTimeMax": stats.put_time_max_ms,
            "putMessageTimesTotal": times,
            "putMessageFailedTimes": stats.put_failed,
            "putMessageSizeTotal": stats.all_bytes,
            "putMessageAverageSize": stats.all_bytes / times,
            "putMessageDistributeTime": "null" if put_times is None else put_times.text(),
            "putLatency99": f"{0.0 if put_times is None else put_times.p99_ms:.2f}",
            "putLatency999": f"{0.0 if put_times is None else put_times.p999_ms:.2f}",
        }

    def _of_rates(self) -> dict[str, object]:
        stats, rates, days = self._stats, self._sampler.rates(), self._sampler.days
        all_gets = " ".join(
            str(0.0 if each is None else each.get_found + each.get_miss) for each in rates
        )
        return {
            "getMessageEntireTimeMax": stats.get_time_max_ms,
            "putTps": rates_text(rates, "put"),
            "getFoundTps": rates_text(rates, "get_found"),
            "getMissTps": rates_text(rates, "get_miss"),
            "getTotalTps": all_gets,
            "getTransferedTps": rates_text(rates, "get_messages"),
            "msgPutTotalYesterdayMorning": days.put_yesterday_morning,
            "msgPutTotalTodayMorning": days.put_today_morning,
            "msgGetTotalYesterdayMorning": days.get_yesterday_morning,
            "msgGetTotalTodayMorning": days.get_today_morning,
            "msgPutTotalTodayNow": stats.all_messages,
            "msgGetTotalTodayNow": stats.get_messages,
        }

    def _of_the_store(self, disks: Disks) -> dict[str, object]:
        store = self._store
        log = min(disks.logs.values(), key=lambda each: each.used_ratio)
        total, free = size_text(log.total_bytes), size_text(log.free_bytes)
        return {
            "commitLogMinOffset": store.min_phy_offset,
            "commitLogMaxOffset": store.max_phy_offset,
            "commitLogDiskRatio": log.used_ratio,
            **{f"commitLogDiskRatio_{path}": each.used_ratio for path, each in disks.logs.items()},
            "consumeQueueDiskRatio": disks.queues.used_ratio,
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "remainHowManyDataToFlush": size_text(
                max(0, store.max_phy_offset - store.flushed_offset)
            ),
            "remainTransientStoreBufferNumbs": _NO_TRANSIENT_POOL,
            "earliestMessageTimeStamp": store.entries.log_begins_at(),
        }

    def _of_queues(self) -> dict[str, object]:
        config, load = self._config, self._load
        return {
            "pageCacheLockTimeMills": load.lag_ms,
            "sendThreadPoolQueueSize": load.waiting,
            "sendThreadPoolQueueHeadWaitTimeMills": load.oldest_wait_ms,
            "startAcceptSendRequestTimeStamp": config.start_accept_send_request_time_stamp,
            "sendThreadPoolQueueCapacity": config.send_thread_pool_queue_capacity,
            "pullThreadPoolQueueCapacity": config.pull_thread_pool_queue_capacity,
            "queryThreadPoolQueueCapacity": config.query_thread_pool_queue_capacity,
            "EndTransactionThreadPoolQueueCapacity": config.end_transaction_pool_queue_capacity,
        }

    def _of_what_is_unusual(self) -> dict[str, object]:
        """Ours, and only what has happened: who looks is to see that it is not as usual."""
        counts = {
            "deadLetterMessages": self._stats.dead_letters,
            "skippedMessages": self._stats.skipped_messages,
            "damagedRecords": self._store.damage.found,
            "mendedRecords": self._store.damage.mended,
        }
        return {key: count for key, count in counts.items() if count}


_ALWAYS_EMPTY: Final = (
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "pullThreadPoolQueueSize",
    "queryThreadPoolQueueSize",
    "EndTransactionQueueSize",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
)


def run_time_text(run_time_ms: int) -> str:
    """``[ 0 days, 0 hours, 1 minutes, 15 seconds ]``."""
    minutes, seconds = divmod(run_time_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def size_text(size_bytes: int) -> str:
    """``0 B``, ``1.5 KiB``, ``252.0 GiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in "KMGTPE":
        size /= 1024
        if size < 1024 or unit == "E":
            break
    return f"{size:.1f} {unit}iB"
