"""Which client may consume which queue in order (class RebalanceLockManager; ``broker-services.md``
§8).

A lock belongs to a client of a group and lasts 60 s after its owner asked for it the last time.
Pure: time is an argument, one that never jumps (``steady_ms``): were the clock on the wall put
forward, another client would get a queue whose owner is still at work in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from ...remoting.outages import Outages
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.slices import Steps, slices

log: Final = logging.getLogger(__name__)

LOCK_LIFE_MS: Final = 60_000
MAX_LOCKS: Final = 1_000_000
"""Beyond that many locks no new one is granted; expired ones are forgotten by ``purge``."""

_LOOKED_AT_AT_ONCE: Final = 10_000
"""In one slice: some milliseconds."""


class _Lock(NamedTuple):
    client_id: str
    locked_at_ms: int


class QueueLocks:
    """Locks by group and queue; the queue's broker name counts too."""

    def __init__(self, outages: Outages) -> None:
        self._outages: Final = outages
        self._locks: dict[tuple[str, MessageQueue], _Lock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Lock what is free, one's own or expired. The queues that this client holds now."""
        return [queue for queue in queues if self._lock((group, queue), client_id, now_ms)]

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free the queues that this client holds; those of others stay locked."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is None:
                continue
            if lock.client_id == client_id:
                del self._locks[group, queue]
            else:
                self._outages.occurs(
                    log,
                    ("unlock",),
                    "unlock refused: not the owner group=%s %s by=%s %s",
                    group,
                    queue,
                    client_id,
                    lock,
                )

    def purge(self, now_ms: int) -> Steps[None]:
        """Forget expired locks."""
        for some in slices(list(self._locks), _LOOKED_AT_AT_ONCE):
            for key in some:
                lock = self._locks.get(key)
                if lock is not None and _is_expired(lock, now_ms):
                    del self._locks[key]
            yield

    def forget_all(self) -> list[str]:
        """The groups that had locks, sorted."""
        groups = sorted({group for group, _ in self._locks})
        self._locks.clear()
        return groups

    def _lock(self, key: tuple[str, MessageQueue], client_id: str, now_ms: int) -> bool:
        old = self._locks.get(key)
        if old is not None and old.client_id != client_id and not _is_expired(old, now_ms):
            return False
        if old is None and len(self._locks) >= MAX_LOCKS:
            self._outages.occurs(
                log,
                ("full",),
                "lock refused: there are %d locks group=%s client=%s",
                MAX_LOCKS,
                key[0],
                client_id,
            )
            return False
        self._locks[key] = _Lock(client_id, now_ms)
        return True


def _is_expired(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.locked_at_ms > LOCK_LIFE_MS
