"""What a broker counts (classes StoreStatsService, BrokerStats, BrokerStatsManager;
``broker-services.md`` §10).

Counters are plain slots that the processors add to; nothing is computed per message. Once a second
``StatsSampler`` takes a ``Sample``, and rates are differences of samples; ``stats_windows`` has the
sums over the last minute, hour and day.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.protocol.message.topic_names import TopicName
from ...store.model.status import PutResult, PutStatus
from ...store.replica.replica_log import ReplicaLog
from ..state.topics import Topic
from .stats_windows import Count

WINDOWS_S: Final = (10, 60, 600)
"""The three rates that every ``...Tps`` value shows."""

PUT_TIME_BOUNDS_MS: Final = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""A put that took as long as the bound, or up to the next millisecond below the next one."""
_PUT_TIME_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
LATENCY_EVERY: Final = 16
"""Of so many pulls of a queue the time of one is taken and counts for all."""
MAX_PULL_COUNTERS: Final = 100_000
"""Queues of groups that pulls are counted for, each with kilobytes of ``stats_windows``; others
count for the broker."""
MAX_SEND_BACKS: Final = 100_000
"""Pairs of topic and group that messages given back are counted for."""
_PERIOD_S: Final = 10


class PullCounter:
    """What a group got out of a queue. ``behind_bytes``: of the commit log behind what its last
    pull found."""

    __slots__ = (
        "behind_bytes",
        "latency_ms",
        "messages",
        "next_offset",
        "pulls",
        "queue_id",
        "size_bytes",
    )

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = queue_id
        self.pulls: int = 0
        """That found something."""
        self.messages: int = 0
        self.size_bytes: int = 0
        self.behind_bytes: int = 0
        self.next_offset: int = 0
        """Behind what the last pull found."""
        self.latency_ms: int = 0


class BrokerStats:
    """The counters since start.

    ``put_messages``, ``put_bytes``, ``put_failed``: messages stored, their bytes in the commit log,
    sends that were not. ``put_refused``: sends that the store never saw (flow control,
    permissions), which the original does not count. ``batched_messages``: of those that were stored
    all but the first of each request.
    ``own_messages``, ``own_bytes``: what the broker stores for itself: ops of
    transactions, copies of half messages, events. ``get_found``, ``get_miss``: pulls that found
    something and that did not. ``get_messages``: messages handed out. ``pulls``: by topic and
    group, then by queue, ``pull_counters`` of them. ``send_backs``: messages given back, by topic
    and group. ``delayed``: messages and bytes by queue of SCHEDULE_TOPIC_XXXX, the only queues that
    the original counts. ``dead_letters``, ``skipped_messages``: what was refused for good (see
    ``DeadLetters``).
    """

    def __init__(
        self, replicated: ReplicaLog | None = None, *, replicates_itself: bool = False
    ) -> None:
        """``replicated``: what a slave has taken from its master. A member of a group that elects
        ``replicates_itself``: there it is everything that is committed, what was put here, too."""
        self.replicated: ReplicaLog | None = replicated
        self._replicates_itself = replicates_itself
        self.own_messages: int = 0
        self.own_bytes: int = 0
        self.put_messages: int = 0
        self.batched_messages: int = 0
        self.put_bytes: int = 0
        self.put_failed: int = 0
        self.put_refused: int = 0
        self.put_time_max_ms: int = 0
        self.dead_letters: int = 0
        self.skipped_messages: int = 0
        self.get_found: int = 0
        self.get_miss: int = 0
        self.get_messages: int = 0
        self.get_bytes: int = 0
        self.get_time_max_ms: int = 0
        self.pulls: dict[tuple[str, str], dict[int, PullCounter]] = {}
        self.pull_counters: int = 0
        self.send_backs: dict[tuple[str, str], int] = {}
        self.delayed: dict[int, tuple[int, int]] = {}
        self._groups_of: dict[str, set[str]] = {}
        self._topics_of: dict[str, set[str]] = {}

    def stored(self, result: PutResult, topic: Topic | None, queue_id: int) -> None:
        """Messages were stored off the hot path (which counts by itself). ``topic``: ``None`` for
        one that is not known."""
        self.put_messages += result.count
        self.put_bytes += result.size
        if topic is not None:
            topic.put_nums += result.count
            topic.put_size_bytes += result.size
            if topic.name == TopicName.SCHEDULE:
                self.put_delayed(queue_id, result.size)

    def stored_own(self, result: PutResult) -> None:
        """The broker has stored something for itself: it counts for the store, but for no topic (as
        in the original)."""
        if result.status is PutStatus.PUT_OK:
            self.own_messages += 1
            self.own_bytes += result.size

    @property
    def all_messages(self) -> int:
        """Everything that was written into this store (class StoreStatsService): put, own, or
        replicated."""
        here = 0 if self._replicates_itself else self.put_messages + self.own_messages
        return here + (self.replicated.records if self.replicated is not None else 0)

    @property
    def all_bytes(self) -> int:
        here = 0 if self._replicates_itself else self.put_bytes + self.own_bytes
        return here + (self.replicated.size_bytes if self.replicated is not None else 0)

    def put_delayed(self, queue_id: int, size_bytes: int) -> None:
        """A message waits in a queue of the schedule topic."""
        messages, total = self.delayed.get(queue_id, (0, 0))
        self.delayed[queue_id] = messages + 1, total + size_bytes

    def pull_counter(self, topic: str, group: str, queue_id: int) -> PullCounter:
        """What a group gets out of a queue; made when it gets something for the first time."""
        counter = self.pulls.get((topic, group), {}).get(queue_id)
        if counter is None:
            counter = PullCounter(queue_id)
            if self.pull_counters < MAX_PULL_COUNTERS:
                self.pull_counters += 1
                self.pulls.setdefault((topic, group), {})[queue_id] = counter
                self._know(topic, group)
        return counter

    def pulls_of(self, topic: str, group: str) -> list[PullCounter]:
        """One per queue that the group got messages from."""
        return list(self.pulls.get((topic, group), {}).values())

    def sent_back(self, topic: str, group: str) -> None:
        """A message of the topic was given back by the group."""
        if (topic, group) in self.send_backs or len(self.send_backs) < MAX_SEND_BACKS:
            self.send_backs[topic, group] = self.send_backs.get((topic, group), 0) + 1
            self._know(topic, group)

    def forget_topic(self, topic: str) -> None:
        """It is gone, and what was counted for it."""
        for group in list(self._groups_of.get(topic, ())):
            self._forget(topic, group)

    def forget_group(self, group: str) -> None:
        """It is gone, and what was counted for it."""
        for topic in list(self._topics_of.get(group, ())):
            self._forget(topic, group)

    def _forget(self, topic: str, group: str) -> None:
        self.pull_counters -= len(self.pulls.pop((topic, group), ()))
        self.send_backs.pop((topic, group), None)
        for table, key, value in ((self._groups_of, topic, group), (self._topics_of, group, topic)):
            table[key].discard(value)
            if not table[key]:
                del table[key]

    def _know(self, topic: str, group: str) -> None:
        """Something is counted for them."""
        self._groups_of.setdefault(topic, set()).add(group)
        self._topics_of.setdefault(group, set()).add(topic)

    def counts(self, cluster_name: str, *, detail: bool) -> Iterator[Count]:
        """Everything under the original's names and keys, but what the topics themselves count.
        ``detail``: per queue too.

        A generator that may be left alone between two steps.
        """
        sends = self.put_messages - self.batched_messages
        yield "BROKER_PUT_NUMS", cluster_name, self.put_messages, sends
        yield "BROKER_GET_NUMS", cluster_name, self.get_messages, self.get_found
        for (topic, group), count in list(self.send_backs.items()):
            yield "SNDBCK_PUT_NUMS", f"{topic}@{group}", count, count
        for queue_id, (messages, size_bytes) in list(self.delayed.items()) if detail else ():
            yield "QUEUE_PUT_NUMS", f"{TopicName.SCHEDULE}@{queue_id}", messages, messages
            yield "QUEUE_PUT_SIZE", f"{TopicName.SCHEDULE}@{queue_id}", size_bytes, messages
        for topic, group in list(self.pulls):
            counters = self.pulls_of(topic, group)
            key, pulls = f"{topic}@{group}", sum(each.pulls for each in counters)
            yield "GROUP_GET_NUMS", key, sum(each.messages for each in counters), pulls
            yield "GROUP_GET_SIZE", key, sum(each.size_bytes for each in counters), pulls
            if not detail:
                yield "GROUP_GET_LATENCY", key, sum(each.latency_ms for each in counters), pulls
                continue
            for each in counters:
                yield (
                    "GROUP_GET_LATENCY",
                    f"{each.queue_id}@{topic}@{group}",
                    each.latency_ms,
                    each.pulls,
                )
                key = f"{topic}@{each.queue_id}@{group}"
                yield "QUEUE_GET_NUMS", key, each.messages, each.pulls
                yield "QUEUE_GET_SIZE", key, each.size_bytes, each.pulls


def topic_counts(topics: Iterable[Topic]) -> Iterator[Count]:
    """What the topics count, under the original's names."""
    for topic in list(topics):
        requests = topic.put_nums - topic.batched_nums
        yield "TOPIC_PUT_NUMS", topic.name, topic.put_nums, requests
        yield "TOPIC_PUT_SIZE", topic.name, topic.put_size_bytes, requests


class Sample(NamedTuple):
    """The counters at one moment."""

    monotonic: float
    put_messages: int
    get_found: int
    get_miss: int
    get_messages: int


class Rates(NamedTuple):
    """Per second over one window; ``None`` where the broker is younger than the window."""

    put: float
    get_found: float
    get_miss: float
    get_messages: float


class DayTotals:
    """Messages put and got until the last two midnights (class BrokerStats)."""

    def __init__(self, now_ms: int) -> None:
        self.put_yesterday_morning: int = 0
        self.put_today_morning: int = 0
        self.get_yesterday_morning: int = 0
        self.get_today_morning: int = 0
        self._next_ms = next_midnight_ms(now_ms)

    def look(self, now_ms: int, put_messages: int, get_messages: int) -> None:
        """Call it at least once a day."""
        if now_ms < self._next_ms:
            return
        self._next_ms = next_midnight_ms(now_ms)
        self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, put_messages
        self.get_yesterday_morning, self.get_today_morning = self.get_today_morning, get_messages


def next_midnight_ms(now_ms: int) -> int:
    """In local time."""
    day = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone().date() + datetime.timedelta(
        days=1
    )
    return int(datetime.datetime.combine(day, datetime.time()).astimezone().timestamp() * 1000)


class PutTimes:
    """How long senders waited for the disk, since the start (``putMessageDistributeTime``) and in
    the last 10 s.

    One that does not wait is stored within microseconds and counts as 0 ms; a batch waits once.
    """

    def __init__(self) -> None:
        self.buckets: list[int] = [0] * len(_PUT_TIME_NAMES)
        self.total_ms: int = 0
        self.p99_ms: float = 0.0
        self.p999_ms: float = 0.0
        self._sends = 0

    def add(self, waits: Mapping[int, int], sends: int) -> None:
        """``waits``: whole milliseconds to how many sends waited so long, of the last period.
        ``sends``: since the start."""
        waited = sum(waits.values())
        at_once = max(0, sends - self._sends - waited)
        self._sends = sends
        self.buckets[0] += at_once
        for wait_ms, count in waits.items():
            self.buckets[
                sum(wait_ms >= bound for bound in PUT_TIME_BOUNDS_MS) if wait_ms else 0
            ] += count
        self.total_ms += sum(wait_ms * count for wait_ms, count in waits.items())
        ordered = [(0, at_once), *sorted(waits.items())]
        self.p99_ms, self.p999_ms = percentile(ordered, 0.99), percentile(ordered, 0.999)

    def text(self) -> str:
        """``[<=0ms]:37 [0~10ms]:27 ...``."""
        return "".join(
            f"{name}:{count} " for name, count in zip(_PUT_TIME_NAMES, self.buckets, strict=True)
        )


def percentile(ordered: Iterable[tuple[int, int]], share: float) -> float:
    """The value that so large a share does not exceed, of ``(value, count)`` in rising order; 0
    when there is nothing."""
    found = list(ordered)
    left = share * sum(count for _, count in found)
    for value, count in found:
        left -= count
        if left <= 0:
            return float(value)
    return 0.0


class StatsSampler:
    """Service: takes a sample every second and keeps ten minutes of them.

    ``take_waits`` gives (and forgets) how long sends waited for the disk, see ``PutTimes.add``.
    """

    def __init__(
        self, stats: BrokerStats, clock: Clock, take_waits: Callable[[], Mapping[int, int]] = dict
    ) -> None:
        self._stats = stats
        self._clock = clock
        self._take_waits = take_waits
        self._samples: deque[Sample] = deque(maxlen=WINDOWS_S[-1] + 1)
        self._count = 0
        self.days: DayTotals = DayTotals(clock.time_ms())
        self.put_times: PutTimes | None = None
        """``None`` before the first ten seconds are over."""

    async def run(self) -> None:
        while True:
            self.sample()
            await self._clock.sleep(1.0)

    def sample(self) -> None:
        """Remember the counters of now."""
        stats = self._stats
        self._samples.append(
            Sample(
                self._clock.monotonic(),
                stats.all_messages,
                stats.get_found,
                stats.get_miss,
                stats.get_messages,
            )
        )
        self.days.look(self._clock.time_ms(), stats.all_messages, stats.get_messages)
        self._count += 1
        if self._count % _PERIOD_S == 0:
            waits = self._take_waits()
            stats.put_time_max_ms = max(stats.put_time_max_ms, max(waits, default=0))
            self.put_times = self.put_times or PutTimes()
            self.put_times.add(waits, stats.put_messages - stats.batched_messages)

    def rates(self) -> list[Rates | None]:
        """One entry per window, between the newest sample and the one that many samples before."""
        return [rates_over(self._samples, seconds) for seconds in WINDOWS_S]


def rates_over(samples: Sequence[Sample], count: int) -> Rates | None:
    """The rates between the newest sample and the one ``count`` before it; ``None`` when there is
    none."""
    if len(samples) <= count:
        return None
    old, new = samples[-count - 1], samples[-1]
    seconds = new.monotonic - old.monotonic
    if seconds <= 0:
        return None
    return Rates(
        *((after - before) / seconds for before, after in zip(old[1:], new[1:], strict=True))
    )


def rates_text(rates: Sequence[Rates | None], field: str) -> str:
    """``1.2 0.9 `` as the tools show it: three numbers, nothing where a window is not full yet."""
    return " ".join("" if each is None else str(getattr(each, field)) for each in rates)
