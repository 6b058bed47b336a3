"""From where to where each micro-batch reads (spark.md §2.4, §5.4, §5.5). Knows no Spark; asks
brokers through ``access``.

Spark writes down the end of a batch before it runs it, and takes whatever end it is given: one that
lies further back than the start is read again, one that differs after a restart loses or repeats
messages. Hence:

- no queue ever goes back (``clamp``), and queues that cannot be asked stay where they are;
- where a new query begins is asked for again while its first batch is not committed. What may have
  changed then (``latest``, a group's offset) is pinned: the first batch is empty, and its end,
  which Spark writes down, is where the query began;
- a queue that is found later is read from 0 on, whatever the broker has by then; of a query that
  began at ``latest``, or at a time, from what was stored since: its broker may have been away;
- a queue that was made anew while nobody looked has the offsets of the old one soon
  (``queue_lives.py``).

What a query must cover is known from where it was, and from ``expectedBrokers`` and
``expectedQueues``: AvailableNow does not end without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BLOCKING_CLOCK, BlockingClock
from ..access.broker_access import Asked, MaxOffset, warn_of_slaves
from ..access.errors import IncompleteReadError, RangeTimeoutError
from ..access.offsets import Offsets, backlog, behind, clamp, rate_limited
from ..access.options import PositionKind, SourceOptions
from .data_loss import lose, told
from .positions import find_queues, is_subscribed, missing, resolve_position
from .queue_lives import LivesAccess, QueueLives
from .stream_position import Life, StreamPosition

__all__ = ["StreamAccess", "StreamOffsets"]

log: Final = logging.getLogger(__name__)

CLOCKS_APART_MS: Final = 60_000
"""By so much the clocks of driver and brokers may differ: rather some old rows of a broker that
was away than new ones missed."""


class StreamAccess(LivesAccess, Protocol):
    """What has to be asked (``BrokerAccess``)."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Asked: ...
    def registered_brokers(self) -> set[str]: ...
    def commit(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class StreamOffsets:
    """The offsets of one running query; lives as long as the query's process on the driver."""

    def __init__(
        self, options: SourceOptions, access: StreamAccess, clock: BlockingClock | None = None
    ) -> None:
        self._options = options
        self._access = access
        self._clock = clock or BLOCKING_CLOCK
        self._lives = QueueLives(options, access, self._clock)
        self._initial: StreamPosition | None = None
        self._pin: Offsets | None = None
        """Where a new query begins, until its first batch has been given that end."""
        self._target: Asked | None = None
        """AvailableNow: what was there at the beginning."""
        self._queues: list[MessageQueue] = []
        self._look_again_at = float("-inf")
        self._found_at = float("-inf")
        self._triggered_at = float("-inf")
        self._away_since: dict[str, float] = {}
        self._begins: Offsets = {}
        """Of queues that were found later, and of which nothing is read yet."""
        self._seen: Offsets = {}
        self._published: Offsets = {}

    # --- what Spark asks
    # --------------------------------------------------------------------------------------------

    def initial(self) -> StreamPosition:
        """Where a new query begins; the same however often it is asked.

        Raises ``ConfigError``, ``IncompleteReadError``, ``RemotingError``, ``BrokerError``.
        """
        if self._initial is None:
            options = self._options
            self._queues = find_queues(options, self._access, must_exist=True)
            self._found_at = self._clock.now()
            if (absent := missing(options, self._queues, self._access)) is not None:
                lose(options, absent, "the others are read", IncompleteReadError)
            now_ms = self._clock.time_ms()
            found = resolve_position(options.starting, self._queues, options, self._access)
            since_ms = {
                PositionKind.LATEST: max(0, now_ms - CLOCKS_APART_MS),
                PositionKind.TIMESTAMP: options.starting.timestamp_ms,
            }.get(options.starting.kind)
            self._initial = StreamPosition(found.offsets, since_ms=since_ms)
            self._pin = None if found.is_stable else found.offsets
        return self._initial

    def prepare_available_now(self) -> None:
        """From now on nothing counts that arrives later. Raises ``RemotingError``,
        ``BrokerError``."""
        self._target = self._access.max_offsets(self._find(now=True))
        warn_of_slaves(self._target.found)

    def latest(self, start: StreamPosition, *, everything: bool = False) -> StreamPosition:
        """The end of the next batch; ``start`` itself when there is to be none.

        ``everything``: the trigger overrides ``maxOffsetsPerTrigger`` (Once). Raises
        ``DataLossError``, ``IncompleteReadError``, ``RangeTimeoutError`` for a broker that stays
        away, ``RemotingError``, ``BrokerError``.
        """
        if self._pin is not None and self._pin == start.offsets:
            self._pin = None
            log.info("a new query begins; its first batch pins %d offsets", len(start.offsets))
            lives = {queue: Life(0, offset, 0, -1) for queue, offset in start.offsets.items()}
            return start._replace(lives=lives)  # a broker may be away when it is asked again
        self._pin = None
        self._publish(start.offsets)
        anew = self._lives.made_anew(start, self._find())
        latest, before = self._look({**start.offsets, **anew})
        self._lives.tell(start, anew, latest)
        begin = {**before, **self._new_queues(before, latest, start.since_ms)}
        end = clamp(begin, {queue: latest[queue] for queue in begin if queue in latest})
        end = self._admit(begin, end, everything=everything)
        moved = {queue for queue in end if end[queue] > begin[queue]}
        if moved:
            self._triggered_at = self._clock.now()
        elif self._target is not None:
            self._check_complete(before)
        end = {queue: end[queue] for queue in end if queue in before or queue in moved}
        if end == start.offsets and not anew:
            return start
        lives = self._lives.after(start, {**begin, **anew}, end, moved, anew)
        return StreamPosition(end, lives, start.since_ms)

    def committed(self, end: Offsets) -> None:
        """The batch that ends there is done. (Of the last batch Spark tells nothing: ``latest``
        hears of it.)"""
        self._publish(end)

    def seen(self) -> Offsets:
        """The latest offsets that were seen."""
        return self._seen

    # --- one trigger
    # ----------------------------------------------------------------------------------------------

    def _look(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """The latest offsets, and ``start`` without the queues that are gone for good."""
        start = self._subscribed(start)
        present = self._find()
        away: dict[MessageQueue, str] = {}
        if start.keys() - set(present):
            registered = self._registered_brokers()
            present = self._find(
                now=True
            )  # a broker may have come back in between: with its queues
            for queue in sorted(start.keys() - set(present)):
                if queue.broker_name in registered:
                    lose(
                        self._options,
                        f"{told(queue)} is gone, its broker is there; it was read up to "
                        f"{start[queue]}",
                    )
                    start = {each: offset for each, offset in start.items() if each != queue}
                else:
                    away[queue] = "no name server knows it at present"
        found = self._max_offsets(start, present, away)
        names = {queue.broker_name: why for queue, why in away.items()}
        there = {queue.broker_name for queue in present}
        for name in self._options.expected_brokers:
            if name not in there:
                names.setdefault(name, "no name server knows it at present (expectedBrokers)")
        self._check_away(names)
        self._seen.update(found)
        return found, start

    def _subscribed(self, start: Offsets) -> Offsets:
        """Without what the query does not name any more. Raises ``DataLossError``."""
        left = {queue for queue in start if not is_subscribed(self._options, queue)}
        if left:
            topics = ", ".join(sorted({queue.topic for queue in left}))
            lose(
                self._options,
                f"the checkpoint has offsets of {len(left)} queues of {topics}, which the query "
                "does not name any more: what came since is not read. Name them again, or begin "
                "with a new checkpoint",
                "they are left out",
            )
        return {queue: offset for queue, offset in start.items() if queue not in left}

    def _max_offsets(
        self, start: Offsets, present: list[MessageQueue], away: dict[MessageQueue, str]
    ) -> Offsets:
        """Latest offsets; queues that cannot be asked are added to ``away``. A queue that ends
        before ``start`` is asked again, then it has lost messages, unless only a slave says so."""
        asked, here = self._target or self._access.max_offsets(present), set(present)
        latest = {queue: each for queue, each in asked.found.items() if queue in here}
        away.update({queue: str(error) for queue, error in asked.failed.items() if queue in start})
        for _ in range(self._options.retries if self._target is None else 0):
            back = self._back(start, latest)
            if not back:
                break
            self._clock.sleep(self._options.retry_interval_ms / 1000)
            latest.update(self._access.max_offsets(back).found)
        if self._target is None:
            for queue in self._back(start, latest):
                lose(
                    self._options,
                    f"{told(queue)} ends at {latest[queue].offset}, but was read up to "
                    f"{start[queue]}",
                )
        return {queue: each.offset for queue, each in latest.items()}

    def _back(self, start: Offsets, latest: Mapping[MessageQueue, MaxOffset]) -> list[MessageQueue]:
        """Queues that end before ``start`` on their master."""
        ends = {queue: each.offset for queue, each in latest.items() if each.from_master}
        return list(behind(start, ends))

    def _new_queues(self, start: Offsets, latest: Offsets, since_ms: int | None) -> Offsets:
        """Queues that were not there before, and where they begin."""
        new = [queue for queue in latest if queue not in start]
        for queue in new:
            if latest[queue] < self._begins.get(queue, 0):  # it was made anew
                del self._begins[queue]
        unknown = [queue for queue in new if queue not in self._begins]
        if unknown:
            begin = oldest = self._access.earliest(unknown)
            if since_ms is not None:
                times = dict.fromkeys(unknown, since_ms)
                found = self._access.offsets_for_times(times)
                begin = {
                    queue: latest[queue] if offset is None else offset
                    for queue, offset in found.items()
                }
            for queue in unknown:
                if begin[queue] == oldest[queue] > 0 and latest[queue] > begin[queue]:
                    what = f"{told(queue)} was found now, but its oldest message is {begin[queue]}"
                    lose(self._options, what)
                elif begin[queue] > oldest[queue]:
                    log.warning(
                        "%s was not there when the query began, but is older: it begins at %d, "
                        "behind what was stored before",
                        told(queue),
                        begin[queue],
                    )
            self._begins.update(begin)
        return {queue: self._begins[queue] for queue in new}

    def _admit(self, begin: Offsets, end: Offsets, *, everything: bool) -> Offsets:
        """``minOffsetsPerTrigger`` and ``maxOffsetsPerTrigger``."""
        options = self._options
        if everything:
            return end
        if self._target is None and options.min_offsets_per_trigger is not None:
            waited_ms = (self._clock.now() - self._triggered_at) * 1000
            if (
                waited_ms < options.max_trigger_delay_ms
                and backlog(begin, end) < options.min_offsets_per_trigger
            ):
                return begin
        if options.max_offsets_per_trigger is not None:
            return rate_limited(begin, end, options.max_offsets_per_trigger)
        return end

    # --- inside
    # ----------------------------------------------------------------------------------------------

    def _find(self, *, now: bool = False) -> list[MessageQueue]:
        """The queues there are; asked for every ``newQueuePollInterval``, or now. Those that are
        known do while nobody can tell."""
        time_s = self._clock.now()
        if now or time_s >= self._look_again_at:
            try:
                self._queues = find_queues(self._options, self._access, must_exist=False)
            except RemotingError as error:
                if (
                    not self._queues
                    or (time_s - self._found_at) * 1000 >= self._options.poll_timeout_ms
                ):
                    raise
                log.warning("new queues were not looked for: %s", error)
            else:
                self._found_at = time_s
            self._look_again_at = time_s + self._options.route_interval_ms / 1000
        return self._queues

    def _registered_brokers(self) -> set[str]:
        """None while no name server answers: then nobody can tell that something is gone."""
        try:
            return self._access.registered_brokers()
        except RemotingError as error:
            log.warning("brokers were not asked for: %s", error)
            return set()

    def _check_away(self, names: Mapping[str, str]) -> None:
        """The queues of these brokers wait. Raises ``RangeTimeoutError`` when one stays away for
        too long; with ``failOnDataLoss=false`` there is no such time."""
        now, patient = self._clock.now(), not self._options.fail_on_data_loss
        self._away_since = {name: self._away_since.get(name, now) for name in names}
        for name, since in self._away_since.items():
            if since == now:
                log.warning("the broker %s is away, its queues wait: %s", name, names[name])
            elif not patient and (now - since) * 1000 >= self._options.poll_timeout_ms:
                raise RangeTimeoutError(
                    f"the broker {name} is away for {now - since:.0f} s now "
                    f"(rocketmqConsumer.pollTimeoutMs): {names[name]}"
                )

    def _check_complete(self, start: Offsets) -> None:
        """AvailableNow has read all that it could. Raises ``IncompleteReadError``."""
        assert self._target is not None
        covered = self._target.found
        absent = [queue for queue in (*start, *self._target.failed) if queue not in covered]
        if absent:
            names = " and ".join(sorted({queue.broker_name for queue in absent}))
            lack: str | None = (
                f"availableNow ends without {len(set(absent))} queues of {names}, which could not "
                "be asked when it began: start the broker and run it again"
            )
        else:
            lack = missing(self._options, covered, self._access)
        if lack is not None:
            lose(self._options, lack, "the next run reads them", IncompleteReadError)

    def _publish(self, offsets: Offsets) -> None:
        """For tools that show lag; nobody reads it back."""
        if not self._options.commit_to_group:
            return
        news = {
            queue: offset
            for queue, offset in offsets.items()
            if self._published.get(queue) != offset
        }
        for name in sorted({queue.broker_name for queue in news}):
            its = {queue: offset for queue, offset in news.items() if queue.broker_name == name}
            try:
                self._access.commit(its)
            except (RemotingError, BrokerError) as error:
                log.warning(
                    "offsets of the group were not published on %s, the next batch tries again: %s",
                    name,
                    error,
                )
            else:
                self._published.update(its)
