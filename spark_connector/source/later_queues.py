"""Where a query begins in queues that it finds later.

A queue of a topic that grows is read from its beginning, whatever it has by then. A queue of a
broker that was away when the query began is another matter: what was there before is no more of a
query from ``latest`` on than what the other brokers had. There it begins with what was stored since
(``checkpoint.Origin``), by the clock of the broker.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from ...remoting.errors import ConnectError
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.checkpoint import Origin
from ..access.offsets import Offsets
from ..access.options import PositionKind, SourceOptions
from .each_broker import ask_each_broker

__all__ = ["LaterQueues", "QueueBegins", "Trimmed", "origin_of"]

log: Final = logging.getLogger(__name__)


class QueueBegins(Protocol):
    """What has to be asked (``BrokerAccess``). Everything raises ``RemotingError``,
    ``BrokerError``."""

    def earliest(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets: ...
    def offsets_for_times(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]: ...
    def log_begins_at(self, queue: MessageQueue) -> int | None: ...


def origin_of(options: SourceOptions, now_ms: int, brokers: Collection[str]) -> Origin | None:
    """Of a query that begins now; ``None`` where it reads what was there before."""
    starting = options.starting
    match starting.kind:
        case PositionKind.LATEST:
            return Origin(now_ms, frozenset(brokers))
        case PositionKind.TIMESTAMP:
            return Origin(starting.timestamp_ms, frozenset(brokers))
        case PositionKind.GROUP | PositionKind.OFFSETS | PositionKind.TIMESTAMPS if (
            options.starting_missing == "latest"
        ):
            return Origin(now_ms, frozenset(brokers))
        case _:
            return None


class Trimmed(NamedTuple):
    """What a queue has lost before it was found."""

    oldest: int
    """The first offset that is kept."""
    lost: int
    """Messages of the query; 0 where nobody can tell which of those before are."""


class LaterQueues:
    """Of one running query."""

    def __init__(self, access: QueueBegins) -> None:
        self._access = access
        self._begins: Offsets = {}
        """A queue of which nothing is read yet is seen at every trigger, and asked for once ..."""
        self._ends: Offsets = {}
        """... for as long as it ends there: later it may be another one."""
        self._trimmed: dict[MessageQueue, Trimmed] = {}

    def begins(
        self, ends: Mapping[MessageQueue, int], origin: Origin | None
    ) -> tuple[Offsets, dict[str, str]]:
        """Where each of these queues begins, which end there now; and brokers that do not say it,
        with the reason: their queues are not read yet."""
        self._begins = {q: at for q, at in self._begins.items() if ends.get(q) == self._ends[q]}
        self._trimmed = {q: each for q, each in self._trimmed.items() if q in self._begins}
        self._ends = dict(ends)
        return ask_each_broker(self._ends, functools.partial(self._of_broker, origin))

    def _of_broker(self, origin: Origin | None, queues: list[MessageQueue]) -> Offsets:
        new = [queue for queue in queues if queue not in self._begins]
        begins = oldest = self._access.earliest(new)
        time_ms = None
        if new and origin is not None and new[0].broker_name not in origin.brokers:
            time_ms = origin.time_ms
            at_time = self._access.offsets_for_times(dict.fromkeys(new, time_ms))
            begins = {q: self._ends[q] if at is None else at for q, at in at_time.items()}
            log.info("%d queues were found now and begin at %d ms", len(new), time_ms)
        trimmed = [queue for queue in new if begins[queue] == oldest[queue] > 0]
        if trimmed and time_ms is not None:
            kept_ms = self._access.log_begins_at(new[0])
            if kept_ms is not None and kept_ms < time_ms:
                trimmed = []
        if len(self._access.oldest_of_masters(trimmed)) < len(trimmed):
            raise ConnectError("the master is away, which may keep what a slave has deleted")
        self._begins |= begins
        self._trimmed |= {q: Trimmed(begins[q], 0 if time_ms else begins[q]) for q in trimmed}
        return {queue: self._begins[queue] for queue in queues}

    @property
    def trimmed(self) -> Mapping[MessageQueue, Trimmed]:
        """Queues of which messages that were to be read may be gone: the oldest that is there is of
        the query, or none is there; and it is not the first of its queue. Not where the broker
        keeps anything that is older than the query: a log is deleted from its beginning on, with
        all that is in it."""
        return self._trimmed
