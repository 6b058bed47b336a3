"""The table that GET_BROKER_RUNTIME_INFO answers: every value a text (``broker-services.md`` §10).

What each key means here: ``docs/broker-runtime-info.md``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.protocol.codes import VERSION, version_name
from ...remoting.protocol.leaves import KIND
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..sends.fast_failure import FastFailure
from ..stats.broker_stats import BrokerStats, DayTotals, PutTimes, Rates, rates_text

_NO_TRANSIENT_POOL: Final = 2**31 - 1
"""What the original reports when it has no pool of off-heap buffers."""


class DiskFigures(NamedTuple):
    """Of the file system that the commit log lies on."""

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


def used_ratio(used: int, available: int) -> float:
    """Share of the space that is taken, in hundredths, rounded up as the original does
    (UtilAll)."""
    total = used + available
    return -(-used * 100 // total) / 100 if total else -1.0


def runtime_info(
    config: BrokerConfig,
    stats: BrokerStats,
    rates: list[Rates | None],
    store: MessageStore,
    disk: DiskFigures,
    load: FastFailure,
    days: DayTotals,
    put_times: PutTimes | None,
    *,
    boot_timestamp_ms: int,
    now_ms: int,
) -> dict[str, str]:
    """All keys. There are no thread pools: the queue of sends is those that wait for the disk, the
    others are empty."""
    times = max(1, stats.all_messages)
    all_gets = " ".join(
        str(0.0 if each is None else each.get_found + each.get_miss) for each in rates
    )
    table: dict[str, object] = {
        "bootTimestamp": boot_timestamp_ms,
        "runtime": run_time_text(now_ms - boot_timestamp_ms),
        "brokerVersion": VERSION,
        "brokerVersionDesc": version_name(VERSION),
        "putMessageEntireTimeMax": stats.put_time_max_ms,
        "putMessageTimesTotal": times,
        "putMessageFailedTimes": stats.put_failed,
        "putMessageSizeTotal": stats.all_bytes,
        "putMessageAverageSize": stats.all_bytes / times,
        "putMessageDistributeTime": "null" if put_times is None else put_times.text(),
        "putLatency99": f"{0.0 if put_times is None else put_times.p99_ms:.2f}",
        "putLatency999": f"{0.0 if put_times is None else put_times.p999_ms:.2f}",
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
        "commitLogMinOffset": store.min_phy_offset,
        "commitLogMaxOffset": store.max_phy_offset,
        "commitLogDiskRatio": disk.used_ratio,
        f"commitLogDiskRatio_{store.config.commit_log_path}": disk.used_ratio,
        "consumeQueueDiskRatio": disk.used_ratio,
        "commitLogDirCapacity": (
            f"Total : {size_text(disk.total_bytes)}, Free : {size_text(disk.free_bytes)}."
        ),
        "remainHowManyDataToFlush": size_text(max(0, store.max_phy_offset - store.flushed_offset)),
        "remainTransientStoreBufferNumbs": _NO_TRANSIENT_POOL,
        "earliestMessageTimeStamp": store.entries.log_begins_at(),
        "pageCacheLockTimeMills": load.lag_ms,
        "sendThreadPoolQueueSize": load.waiting,
        "sendThreadPoolQueueHeadWaitTimeMills": load.oldest_wait_ms,
        "startAcceptSendRequestTimeStamp": config.start_accept_send_request_time_stamp,
        "sendThreadPoolQueueCapacity": config.send_thread_pool_queue_capacity,
        "pullThreadPoolQueueCapacity": config.pull_thread_pool_queue_capacity,
        "queryThreadPoolQueueCapacity": config.query_thread_pool_queue_capacity,
        "EndTransactionThreadPoolQueueCapacity": config.end_transaction_pool_queue_capacity,
        "leaves": KIND,
        **dict.fromkeys(_ALWAYS_EMPTY, 0),
    }
    ours = {
        "deadLetterMessages": stats.dead_letters,
        "skippedMessages": stats.skipped_messages,
        "damagedRecords": store.damage.found,
        "mendedRecords": store.damage.mended,
    }
    table |= {
        key: count for key, count in ours.items() if count
    }  # who looks is to see that it is not as usual
    return {key: str(value) for key, value in table.items()}


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
