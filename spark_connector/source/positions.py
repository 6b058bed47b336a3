"""Which queues a query reads, and what ``startingOffsets``, ``endingTimestamp``, ... mean for them
now (spark.md §5.3)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from ...client.errors import ConfigError
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.offsets import EARLIEST, LATEST, Offsets, resolve
from ..access.options import Position, PositionKind, SourceOptions
from .coverage import report
from .each_broker import ask_each_broker

__all__ = ["OffsetAccess", "Resolved", "chosen", "find_queues", "named", "resolve_position"]

log: Final = logging.getLogger(__name__)


class OffsetAccess(Protocol):
    """What has to be asked (``BrokerAccess``). Everything raises ``RemotingError``,
    ``BrokerError``."""

    def topics(self, pattern: str) -> list[str]: ...
    def queues(self, topics: Iterable[str]) -> dict[str, tuple[MessageQueue, ...]]: ...
    def latest(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def latest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def earliest(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def group_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]: ...
    def offsets_for_times(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]: ...


def find_queues(
    options: SourceOptions, access: OffsetAccess, *, must_exist: bool
) -> list[MessageQueue]:
    """The queues that the query reads, sorted.

    ``must_exist``: raises ``ConfigError`` for a topic or queue that was named and is not there.
    """
    if options.topic_pattern is not None:
        by_topic = access.queues(access.topics(options.topic_pattern))
        if must_exist and not any(by_topic.values()):
            log.warning(
                "option subscribePattern: no topic matches %s at present", options.topic_pattern
            )
        return sorted(queue for queues in by_topic.values() for queue in queues)
    named = dict.fromkeys((*options.topics, *(each.topic for each in options.assigned)))
    by_topic = access.queues(named)
    if must_exist and (missing := [topic for topic, queues in by_topic.items() if not queues]):
        raise ConfigError(
            f"no broker has the topic {', '.join(missing)}: create it, or start its broker"
        )
    found = sorted(queue for queues in by_topic.values() for queue in queues)
    if not options.assigned:
        return found
    if must_exist:
        return sorted(resolve("assign", options.assigned, found))
    return chosen(found, options)


def chosen(queues: Iterable[MessageQueue], options: SourceOptions) -> list[MessageQueue]:
    """Those that the query reads if they are there."""
    if options.topic_pattern is not None:
        matches = re.compile(options.topic_pattern).fullmatch
        return [queue for queue in queues if matches(queue.topic)]
    if options.topics:
        return [queue for queue in queues if queue.topic in options.topics]
    assigned = {(each.topic, each.queue_id, each.broker_name) for each in options.assigned}
    return [
        q
        for q in queues
        if {(q.topic, q.queue_id, q.broker_name), (q.topic, q.queue_id, None)} & assigned
    ]


def named(queues: Iterable[MessageQueue], others: Iterable[MessageQueue]) -> list[str]:
    """The shortest names: of topics, and of queues where ``others`` are of the same topic."""
    kept = {queue.topic for queue in others}
    return sorted(
        {
            f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
            if queue.topic in kept
            else queue.topic
            for queue in queues
        }
    )


class Resolved(NamedTuple):
    """Where a position lies now."""

    offsets: Offsets
    is_stable: bool
    """Later it will lie there, too, as far as nothing is deleted."""


def resolve_position(
    position: Position, queues: Iterable[MessageQueue], options: SourceOptions, access: OffsetAccess
) -> Resolved:
    """An offset for every queue. Raises ``ConfigError``, ``RemotingError``, ``BrokerError``."""
    wanted = list(queues)
    match position.kind:
        case PositionKind.EARLIEST:
            return Resolved(_oldest(wanted, access), True)
        case PositionKind.LATEST:
            return Resolved(access.latest(wanted), False)
        case PositionKind.GROUP:
            stands = access.group_offsets(wanted)
            known = {queue: offset for queue, offset in stands.items() if offset is not None}
            return Resolved(_complete(position, known, wanted, options, access), False)
        case PositionKind.OFFSETS:
            given = resolve(position.option, position.values, wanted)
            is_stable = LATEST not in given.values() and (
                len(given) == len(wanted) or options.starting_missing != "latest"
            )
            return Resolved(_complete(position, given, wanted, options, access), is_stable)
        case PositionKind.TIMESTAMP | PositionKind.TIMESTAMPS:
            return _at_times(position, wanted, options, access)


def _at_times(
    position: Position, queues: list[MessageQueue], options: SourceOptions, access: OffsetAccess
) -> Resolved:
    if position.kind is PositionKind.TIMESTAMP:
        times = dict.fromkeys(queues, position.timestamp_ms)
    else:
        times = resolve(position.option, position.values, queues)
    ends, of_slaves = _latest(position, times, access)  # before: what comes meanwhile is not older
    found = access.offsets_for_times(times)
    late = [queue for queue, offset in found.items() if offset is None]
    if late and _is_start(position) and options.timestamp_strategy == "error":
        raise ConfigError(
            f"option {position.option}: nothing was stored at or after {times[late[0]]} in "
            f"{_told(late)}; "
            "startingOffsetsByTimestampStrategy=latest begins with what comes next there"
        )
    if unsure := sorted({queue.broker_name for queue in late} & of_slaves):
        lacks = f"has nothing of {position.option} or later: what it lacks nobody knows"
        report(
            options,
            [f"the master of the broker {name} is away, and its slave {lacks}" for name in unsure],
        )
    offsets: Offsets = {queue: offset for queue, offset in found.items() if offset is not None}
    if _is_start(position):
        _warn_of_slaves(offsets, access)
    offsets.update({queue: ends[queue] for queue in late})
    return Resolved(_complete(position, offsets, queues, options, access), not late)


def _oldest(queues: Iterable[MessageQueue], access: OffsetAccess) -> Offsets:
    oldest = access.earliest(queues)
    _warn_of_slaves(oldest, access)
    return oldest


def _warn_of_slaves(begins: Offsets, access: OffsetAccess) -> None:
    """A slave deletes on its own, and one that is new has only what came since: its master may keep
    what lies before, and nobody could tell otherwise."""
    trimmed = [queue for queue, offset in begins.items() if offset > 0]
    told, _ = ask_each_broker(trimmed, access.oldest_of_masters)
    for name in sorted({queue.broker_name for queue in trimmed if queue not in told}):
        log.warning(
            "the master of the broker %s is away: its queues are read from where a slave of it "
            "begins, which may be behind the oldest that the master keeps",
            name,
        )


def _latest(
    position: Position, queues: Iterable[MessageQueue], access: OffsetAccess
) -> tuple[Offsets, set[str]]:
    """Latest offsets, and brokers of which only a slave tells that. Where a read begins it is all
    the same: whatever a slave lacks comes later."""
    if _is_start(position):
        return access.latest(queues), set()
    ends, failed = ask_each_broker(queues, access.latest_of_masters)
    ends |= access.latest([queue for queue in queues if queue not in ends])
    return ends, set(failed)


def _complete(
    position: Position,
    given: Offsets,
    queues: list[MessageQueue],
    options: SourceOptions,
    access: OffsetAccess,
) -> Offsets:
    """With offsets for queues that the position says nothing of, and for -2 and -1."""
    missing = [queue for queue in queues if queue not in given]
    if missing:
        policy = options.starting_missing if _is_start(position) else "error"
        if policy == "error":
            what = (
                f"the group {options.group} has no offset"
                if position.kind is PositionKind.GROUP
                else "says nothing"
            )
            raise ConfigError(
                f"option {position.option}: {what} for {_told(missing)}; all queues are needed"
                + (", or startingOffsetsMissing=earliest or latest" if _is_start(position) else "")
            )
        given = {**given, **dict.fromkeys(missing, EARLIEST if policy == "earliest" else LATEST)}
    if low := [queue for queue, offset in given.items() if offset == EARLIEST]:
        given = {**given, **_oldest(low, access)}
    if high := [queue for queue, offset in given.items() if offset == LATEST]:
        given = {**given, **access.latest(high)}
    return given


def _is_start(position: Position) -> bool:
    return position.option.startswith("starting")


def _told(queues: list[MessageQueue]) -> str:
    names = [f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in queues]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
