"""From where to where each micro-batch reads (spark.md §2.4, §5.4, §5.5). Knows no Spark; asks
brokers through ``access``.

Spark writes down the end of a batch before it runs it, and takes whatever end it is given: one that
lies further back than the start is read again, one that differs after a restart loses or repeats
messages. Hence:

- no queue ever goes back (``clamp``), and queues that cannot be asked stay where they are;
- where a new query begins is asked for again while its first batch is not committed. What may have
  changed then (``latest``, a group's offset) is pinned: the first batch is empty, and its end,
  which Spark writes down, is where the query began;
- where a batch begins elsewhere than where the one before ended (the first one; a queue that is
  found later, or was made anew under its name) stands in its end, so that it reads the same when it
  runs again, whoever is away then;
- a query that ends by itself (AvailableNow) ends well only where everything was read that it had to
  read: of brokers that are away, its checkpoint remembers some, the user may name others.

One file: the steps of one trigger, each of which needs what those before it found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BLOCKING_CLOCK, BlockingClock, SystemClock
from ..access.broker_access import Asked, MaxOffset, warn_of_slaves
from ..access.checkpoint import Checkpoint
from ..access.offsets import Offsets, backlog, behind, clamp, rate_limited
from ..access.options import PositionKind, SourceOptions
from ..access.seen import Seen, name_of
from .away_brokers import WATCH_PAUSE_S, AwayBrokers
from .coverage import CoverageAccess, not_covered
from .each_broker import ask_each_broker
from .group_progress import GroupAccess, GroupProgress
from .later_queues import LaterQueues, QueueBegins, origin_of
from .losses import Losses
from .planner import QueueRange, ranges_between
from .positions import chosen, named, resolve_position
from .queue_finder import FinderAccess, QueueFinder
from .remade_topics import MarkAccess, Marks, Remade

__all__ = ["StreamAccess", "StreamOffsets"]

log: Final = logging.getLogger(__name__)

_UNKNOWN: Final = "no name server knows it at present"
_UNROUTED: Final = "it has the topic {}, but the name server does not know that at present"


class StreamAccess(FinderAccess, CoverageAccess, MarkAccess, QueueBegins, GroupAccess, Protocol):
    """What has to be asked (``BrokerAccess``)."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Asked: ...
    def unrouted(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]: ...
    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets: ...


class _Seen(NamedTuple):
    """What one trigger finds."""

    latest: Offsets
    """Of the queues that can be asked."""
    offsets: Offsets
    """Where we are, in queues that are not gone for good."""
    short: list[MessageQueue]
    """Queues that end before where we are."""
    away: dict[str, str]
    """Brokers, and why."""


class StreamOffsets:
    """The offsets of one running query; lives as long as the query's process on the driver."""

    def __init__(
        self,
        options: SourceOptions,
        access: StreamAccess,
        clock: BlockingClock | None = None,
        time_ms: Callable[[], int] | None = None,
    ) -> None:
        self._options = options
        self._access = access
        self._clock = clock or BLOCKING_CLOCK
        self._time_ms = time_ms or SystemClock().time_ms
        self._initial: Checkpoint | None = None
        self._pin: Checkpoint | None = None
        """Where a new query begins, until its first batch has been given that end."""
        self._target: dict[MessageQueue, MaxOffset] | None = None
        """AvailableNow: what was there at the beginning."""
        self._unasked: set[MessageQueue] = set()
        """AvailableNow: queues whose brokers could not be asked then."""
        self._finder = QueueFinder(options, access, self._clock)
        self._away = AwayBrokers(options, self._clock)
        self._later = LaterQueues(access)
        interval_s = options.route_interval_ms / 1000
        self._marks = Marks(access, self._clock, self._time_ms, interval_s)
        self._progress = GroupProgress(access, self._clock) if options.commit_to_group else None
        self._losses = Losses(options)
        self._has_looked = False
        self._triggered_at = float("-inf")
        self._seen: Offsets = {}

    # --- what Spark asks
    # --------------------------------------------------------------------------------------------

    def initial(self) -> Checkpoint:
        """Where a new query begins; the same however often it is asked.

        Raises ``ConfigError``, ``CoverageError``, ``RemotingError``, ``BrokerError``.
        """
        if self._initial is None:
            options, now_ms = self._options, self._time_ms()
            queues = self._finder.first()
            self._losses.report(not_covered(options, self._access, queues))
            origin = origin_of(options, now_ms, self._finder.brokers(queues))
            found = resolve_position(options.starting, queues, options, self._access)
            is_earliest = options.starting.kind is PositionKind.EARLIEST
            marked = self._marks.gone if is_earliest else self._marks.renewed
            self._initial = Checkpoint(found.offsets, origin, marks=marked(found.offsets))
            self._pin = None if found.is_stable else self._initial
        return self._initial

    def prepare_available_now(self) -> None:
        """From now on nothing counts that arrives later. Raises ``RemotingError``,
        ``BrokerError``."""
        asked = self._access.max_offsets(self._finder.find(now=True))
        for queue, error in asked.failed.items():
            log.warning("%s cannot be asked yet: %s", _told(queue), error)
        warn_of_slaves(asked.found)
        self._target, self._unasked = asked.found, set(asked.failed)

    def latest(self, start: Checkpoint, *, everything: bool = False) -> Checkpoint:
        """The end of the next batch; ``start`` itself when there is to be none.

        ``everything``: the trigger overrides ``maxOffsetsPerTrigger`` (Once). Raises what
        ``Losses``, ``AwayBrokers`` raise, and ``RemotingError``, ``BrokerError``.
        """
        self._has_looked = True
        is_first = start == self._initial
        pinned, self._pin = self._pin, None
        if is_first and pinned is not None:
            log.info(
                "a new query begins; its first batch is empty and pins %d offsets",
                len(start.offsets),
            )
            return replace(start, begins=_told_begins(start.offsets))
        self.committed(start)
        seen = self._watched(start)
        remade, unknown = self._marks.compare(start.marks, self._doubtful(seen), seen.short)
        self._aim_anew(remade, seen.latest)
        self._check_losses(seen, remade)
        later, unsaid = self._later_queues(start, seen)
        away = {**seen.away, **unknown, **unsaid}
        self._away.check(away)
        latest = {q: offset for q, offset in seen.latest.items() if q.broker_name not in unknown}
        again = {queue: each.begin for queue, each in remade.items()}
        begin = {**seen.offsets, **later, **again}
        all_of_it = clamp(begin, {queue: latest[queue] for queue in begin if queue in latest})
        end = self._admit(begin, all_of_it, everything=everything)
        kept = self._check_the_oldest(begin, all_of_it) if end != begin else {}
        if kept:  # what is gone is none of what a trigger reads
            begin |= kept
            end = self._admit(begin, all_of_it, everything=everything)
        known = seen.offsets.keys() | self._later.trimmed.keys()  # a loss is told once
        ends = {q: until for q, until in end.items() if q in known or until > begin[q]}
        read = {queue: until for queue, until in ends.items() if until > begin[queue]}
        self._forget_others(seen, begin, ends)
        if read:
            self._triggered_at = self._clock.now()
        elif self._target is not None:
            self._check_the_end(seen.offsets, away)
        if ends == start.offsets and not remade and not is_first:
            return start
        begins = _told_begins(later) | again | kept
        if is_first:  # 0 as well: it may not be the beginning any more when this runs again
            begins = {q: at for q, at in start.offsets.items() if at or q in read} | begins
        moved = read | {queue: ends[queue] for queue in kept if queue in ends}
        marks = {
            q: each
            for q, each in start.marks.items()
            if q in ends.keys() - remade.keys() - moved.keys()
        }
        # Checkpoints of earlier versions have no marks, nor have brokers that did not tell.
        bare = {q: until for q, until in ends.items() if q in latest and q not in marks}
        bare = {queue: until for queue, until in bare.items() if self._marks.is_due(queue)}
        return Checkpoint(
            ends,
            start.origin,
            {queue: offset for queue, offset in begins.items() if queue in ends},
            marks | self._marks.renewed(bare | moved),
        )

    def ranges(self, start: Checkpoint, end: Checkpoint) -> list[QueueRange]:
        """What the batch between these reads. Raises ``DataLossError``.

        One that a process before this one planned runs again before anything else is asked: what a
        queue has that was made anew since is none of it.
        """
        ranges = ranges_between(end.starts(start.offsets), end.offsets)
        self._pin = None  # its end is written down, by this process or the one before
        if self._has_looked:
            return ranges
        queues = [each.queue for each in ranges]
        short = _behind(end.offsets, self._access.max_offsets(queues).found)
        remade, _ = self._marks.compare(end.marks, queues, short)
        for queue, (begin, why) in sorted(remade.items()):
            self._losses.found(
                f"{_told(queue)} was made anew, or lost its end, since this batch was planned: "
                f"{why}",
                f": what is left of the batch ends before {begin}",
            )
        old = {queue: min(end.offsets[queue], each.begin) for queue, each in remade.items()}
        return ranges_between(end.starts(start.offsets), {**end.offsets, **old})

    def committed(self, end: Checkpoint) -> None:
        """The batch that ends there is done. (Of the last batch Spark tells nothing: ``latest``
        hears of it.)"""
        if self._progress is not None:
            self._progress.publish(end.offsets)

    def seen(self) -> Seen | None:
        """What is worth seeing of the query; ``None`` before brokers were asked."""
        losses = self._losses
        away = self._away.names
        if not self._seen:
            return None
        return Seen(dict(self._seen), name_of(self._options), losses.times, losses.messages, away)

    # --- one trigger
    # ----------------------------------------------------------------------------------------------

    def _watched(self, start: Checkpoint) -> _Seen:
        """What is there once it is clear who is away."""
        seen = self._look(start)
        self._away.begin(seen.away)
        while self._away.are_watched(seen.away):
            self._clock.sleep(WATCH_PAUSE_S)
            seen = self._look(start)
        return seen

    def _look(self, start: Checkpoint) -> _Seen:
        """The latest offsets, and where we are, without the queues that are gone for good."""
        self._losses.next_trigger()
        offsets = self._wanted(start.offsets)
        present = self._finder.find()
        away: dict[str, str] = {}
        if offsets.keys() - set(present):
            registered = self._finder.brokers()
            present = self._finder.find(
                now=True
            )  # a broker may have come back in between: with its queues
            missing = sorted(offsets.keys() - set(present))
            unrouted = self._unrouted(missing, present, registered)
            for queue in missing:
                if queue in unrouted:
                    away[queue.broker_name] = _UNROUTED.format(queue.topic)
                elif queue.broker_name in registered and self._finder.is_sure:
                    self._losses.found(
                        f"{_told(queue)} is gone, its broker is there; it was read up to "
                        f"{offsets[queue]}",
                        messages=max(0, self._seen.pop(queue, 0) - offsets[queue]),
                    )
                    del offsets[queue]
                elif self._options.expected.is_gone(queue.broker_name):
                    self._losses.warn(
                        f"the broker {queue.broker_name} is away and not among expectedBrokers: "
                        "its queues are forgotten"
                    )
                    del offsets[queue]
                else:
                    away[queue.broker_name] = _UNKNOWN
        away |= dict.fromkeys(self._options.expected.absent_brokers(present), _UNKNOWN)
        asked = self._ask(offsets, present)
        away |= {queue.broker_name: str(error) for queue, error in asked.failed.items()}
        latest = dict(asked.found)
        short = self._short(offsets, latest)
        found = {queue: each.offset for queue, each in latest.items()}
        self._seen.update(found)
        return _Seen(found, offsets, short, away)

    def _unrouted(
        self, missing: list[MessageQueue], present: list[MessageQueue], registered: set[str]
    ) -> set[MessageQueue]:
        """Those of ``missing`` that are at their broker all the same, or may be. A name server that
        was started a moment ago, or that was told of one topic only, knows a broker without the
        others: where no queue of a topic is left there, the broker is asked itself."""
        routed = {queue[:2] for queue in present}
        doubtful = [q for q in missing if q.broker_name in registered and q[:2] not in routed]
        if not doubtful:
            return set()
        try:
            there = {queue[:2] for queue in self._access.unrouted(doubtful)}
        except (RemotingError, BrokerError) as error:
            log.warning("brokers were not looked up: %s", error)
            return set(doubtful)
        return {queue for queue in doubtful if queue[:2] in there}

    def _forget_others(self, seen: _Seen, begin: Offsets, ends: Offsets) -> None:
        """What nobody is behind with is none of the latest that are seen: queues that are
        forgotten, and those found later of which all is older than the query. (Topics and brokers
        come and go for as long as a query runs.)"""
        self._seen = {
            queue: offset
            for queue, offset in self._seen.items()
            if queue in ends or (queue in seen.latest and offset > begin.get(queue, -1))
        }
        self._marks.forget_others(ends)

    def _wanted(self, offsets: Offsets) -> Offsets:
        """Without queues that the query was told to read once, and is not any more."""
        kept = {queue: offsets[queue] for queue in chosen(offsets, self._options)}
        if dropped := offsets.keys() - kept:
            what = ", ".join(named(dropped, kept))
            self._losses.warn(
                f"{what}: in the checkpoint, but not read any more, as subscribe, subscribePattern "
                "or assign says; forgotten, so read from the beginning if it comes back"
            )
        return kept

    def _doubtful(self, seen: _Seen) -> list[MessageQueue]:
        """Queues to be compared with their marks: those of which something is to be read, those
        that are short, and from time to time the others."""
        return [
            queue
            for queue, offset in seen.offsets.items()
            if queue in seen.latest and (seen.latest[queue] != offset or self._marks.is_due(queue))
        ]

    def _ask(self, offsets: Offsets, present: list[MessageQueue]) -> Asked:
        """AvailableNow: what its beginning found; what could not be asked then is asked now."""
        if self._target is None:
            return self._access.max_offsets(present)
        asked = self._access.max_offsets(
            queue
            for queue in present
            if queue not in self._target and (queue in offsets or queue in self._unasked)
        )
        self._target |= asked.found
        here = set(present)
        return Asked(
            {queue: each for queue, each in self._target.items() if queue in here}, asked.failed
        )

    def _aim_anew(self, remade: Iterable[MessageQueue], latest: Offsets) -> None:
        """AvailableNow: where a queue ended that was made anew since is not where it ends now."""
        if self._target is None:
            return
        now = self._access.max_offsets(remade).found
        self._target |= now
        ends = {queue: each.offset for queue, each in now.items()}
        latest |= ends
        self._seen |= ends

    def _short(self, offsets: Offsets, latest: dict[MessageQueue, MaxOffset]) -> list[MessageQueue]:
        """Queues that end before where we are, as their master says when it is asked again. (A
        slave may lag behind.)"""
        now = dict(latest)
        if self._target is not None:  # where it ended at the beginning says nothing of that
            now |= self._access.max_offsets(queue for queue in offsets if queue in latest).found
        short = _behind(offsets, now)
        for _ in range(max(1, self._options.retries)):
            if not short:
                break
            self._clock.sleep(self._options.retry_interval_ms / 1000)
            again = self._access.max_offsets(short).found if self._look_up(short) else {}
            short = _behind(offsets, again)
            now |= again
        latest |= now if self._target is None else {queue: now[queue] for queue in short}
        return short

    def _look_up(self, queues: Iterable[MessageQueue]) -> bool:
        """Where their masters are now: who was one a moment ago may be a slave, and still answers.
        Whether a name server tells; no loss is believed otherwise."""
        try:
            self._access.queues(sorted({queue.topic for queue in queues}))
        except (RemotingError, BrokerError) as error:
            log.warning("masters were not looked up: %s", error)
            return False
        return True

    def _check_losses(self, seen: _Seen, remade: Mapping[MessageQueue, Remade]) -> None:
        """Raises ``DataLossError``, or warns (``failOnDataLoss=false``)."""
        for queue, (begin, why) in sorted(remade.items()):
            until, latest = seen.offsets[queue], seen.latest[queue]
            self._losses.found(
                f"{_told(queue)} was made anew, or lost its end, since it was read up to {until}: "
                f"{why}; of the {latest - begin} messages since, {min(until, latest) - begin} lie "
                "before that offset",
                f": it is read from {begin} on",
            )
        for queue in seen.short:
            if queue not in remade:
                up_to = f"was read up to {seen.offsets[queue]}"
                self._losses.found(
                    f"{_told(queue)} ends at {seen.latest[queue]}, but {up_to}",
                    same=f"{_told(queue)} {up_to}",
                )

    def _check_the_oldest(self, begin: Offsets, end: Offsets) -> Offsets:
        """What is to be read may be too old to be kept: where that begins which is. (What goes
        while it is read, the task tells.)"""
        wanted = [queue for queue, until in end.items() if until > begin[queue]]
        oldest, _ = ask_each_broker(wanted, self._access.oldest_of_masters)
        old = [queue for queue, offset in oldest.items() if offset > begin[queue]]
        if old:
            ask = self._access.oldest_of_masters
            oldest, _ = ask_each_broker(old if self._look_up(old) else (), ask)
        kept: Offsets = {}
        for queue, offset in sorted(oldest.items()):
            if (gone := min(offset, end[queue]) - begin[queue]) > 0:
                self._losses.found(
                    f"{_told(queue)}: the oldest message that is kept is {offset}, it was read up "
                    f"to {begin[queue]}",
                    f": {gone} messages are left out",
                    messages=gone,
                )
                kept[queue] = begin[queue] + gone
        return kept

    def _later_queues(self, start: Checkpoint, seen: _Seen) -> tuple[Offsets, dict[str, str]]:
        """Queues that were not there before, and where they begin."""
        new = {queue: end for queue, end in seen.latest.items() if queue not in seen.offsets}
        begins, unsaid = self._later.begins(new, start.origin)
        for queue, (oldest, lost) in self._later.trimmed.items():
            unsure = "" if lost else ", and nobody can tell which of those before are of the query"
            self._losses.found(
                f"{_told(queue)} was found now, but its oldest message is {oldest}{unsure}",
                messages=lost,
            )
        return begins, unsaid

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

    def _check_the_end(self, offsets: Offsets, away: Mapping[str, str]) -> None:
        """AvailableNow has nothing more to read. Raises ``CoverageError`` when that is not all."""
        present = set(self._finder.find())
        ends = {queue: each.offset for queue, each in (self._target or {}).items()}
        unread = [queue for queue in self._unasked if queue not in ends]
        unread += [queue for queue in ends if ends[queue] > offsets.get(queue, 0)]
        lost = {queue.broker_name: _UNKNOWN for queue in unread if queue not in present}
        missing = [
            f"the broker {name} is away, its queues were not read to the end: {why}"
            for name, why in sorted({**lost, **away}.items())
        ]
        self._losses.report(missing + not_covered(self._options, self._access, present))


def _behind(offsets: Offsets, latest: Mapping[MessageQueue, MaxOffset]) -> list[MessageQueue]:
    ends = {queue: each.offset for queue, each in latest.items() if each.from_master}
    return list(behind(offsets, ends))


def _told_begins(offsets: Offsets) -> Offsets:
    """What an end has to say of where its batch begins: 0 is what is taken otherwise."""
    return {queue: offset for queue, offset in offsets.items() if offset}


def _told(queue: MessageQueue) -> str:
    return f"the queue {queue.topic}/{queue.broker_name}/{queue.queue_id}"
