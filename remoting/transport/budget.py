"""One budget for what all connections of a process hold: what came and could not be served yet
(frames that are not complete, frames that wait), and answers that were not read. Pure: bytes and
the time go in, verdicts come out.

Each connection has limits of its own (``flow.py``); 250 unfinished frames of 16 MiB keep all of
them, and take 4 GiB. So, of the limit,

* beyond three quarters the largest and slowest are not read any more, until those that still are
  hold half of it;
* below five eighths they are read again;
* who was not read for ``PATIENCE_S`` and still holds something while there is more than five
  eighths is cut;
* beyond the limit the largest and slowest are cut at once until three quarters are left.

Largest and slowest: bytes times the seconds since the connection began to hold something, or since
it last held less. A frame of 16 MiB that comes in a second is never in front of one that takes a
minute.

Invariant: ``total`` is the sum of all accounts; connections that hold nothing have none.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)

PATIENCE_S: Final = 5.0
_MIB: Final = 1 << 20
_WORTH_GIVING_BACK: Final = 64 * _MIB


class Action(Enum):
    """What is to be done with a connection."""

    PAUSE = auto()
    RESUME = auto()
    CUT = auto()


class Verdict(NamedTuple, Generic[K]):
    connection: K
    action: Action
    reason: str


class _Account(msgspec.Struct):
    """``paused_at``: when reading was stopped, ``None`` while it is read."""

    size: int
    since: float
    paused_at: float | None = None

    def weight(self, now: float) -> float:
        return self.size * (now - self.since + 1.0)


class MemoryBudget(Generic[K]):
    """``hold`` whenever what a connection holds has changed, ``judge`` when ``is_due`` and once a
    second."""

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.total: int = 0
        self._accounts: dict[K, _Account] = {}
        self._paused: dict[K, _Account] = {}
        self._pause_beyond = limit * 3 // 4
        self._resume_below = limit * 5 // 8
        self._due_beyond = self._pause_beyond
        self._peak = 0
        """Of ``total`` since memory was given back."""

    def hold(self, connection: K, size: int, now: float) -> None:
        """The connection holds so many bytes now."""
        account = self._accounts.get(connection)
        if account is None:
            if size:
                self._accounts[connection] = _Account(size, now)
                self.total += size
        else:
            self.total += size - account.size
            if not size:
                self._forget(connection)
            elif size < account.size:
                account.since = now
            account.size = size
        self._peak = max(self._peak, self.total)

    @property
    def is_due(self) -> bool:
        """There is so much more that somebody has to decide."""
        return self.total > self._due_beyond

    def judge(self, now: float) -> list[Verdict[K]]:
        """What is to be done now. Who is cut is forgotten at once."""
        verdicts: list[Verdict[K]] = []
        if self.total > self._resume_below:
            verdicts += self._cut(now)
            verdicts += self._pause(now)
        if self.total <= self._resume_below:
            verdicts += [Verdict(each, Action.RESUME, "") for each in self._paused]
            for account in self._paused.values():
                account.paused_at = None
            self._paused.clear()
        self._due_beyond = max(self._pause_beyond, self.total + self.limit // 64)
        return verdicts

    def take_peak(self) -> int:
        """How much less is held than at the most since this was not 0; 0 while it is not worth
        giving it back."""
        given_up = self._peak - self.total
        if given_up < max(min(_WORTH_GIVING_BACK, self.limit // 8), self._peak // 2):
            return 0
        self._peak = self.total
        return given_up

    def _cut(self, now: float) -> list[Verdict[K]]:
        verdicts: list[Verdict[K]] = []
        target = self._pause_beyond if self.total > self.limit else self.limit
        for connection, account in self._by_weight(now):
            waited = account.paused_at is not None and now - account.paused_at >= PATIENCE_S
            if self.total <= target and not (waited and self.total > self._resume_below):
                continue
            verdicts.append(Verdict(connection, Action.CUT, self._reason(account, now)))
            self.total -= account.size
            self._forget(connection)
        return verdicts

    def _pause(self, now: float) -> list[Verdict[K]]:
        verdicts: list[Verdict[K]] = []
        if self.total <= self._pause_beyond:
            return verdicts
        read = self.total - sum(account.size for account in self._paused.values())
        for connection, account in self._by_weight(now):
            if read <= self.limit // 2:
                break
            if account.paused_at is None:
                account.paused_at = now
                self._paused[connection] = account
                read -= account.size
                verdicts.append(Verdict(connection, Action.PAUSE, self._reason(account, now)))
        return verdicts

    def _by_weight(self, now: float) -> list[tuple[K, _Account]]:
        return sorted(self._accounts.items(), key=lambda each: each[1].weight(now), reverse=True)

    def _reason(self, account: _Account, now: float) -> str:
        return (
            f"it holds {account.size} bytes since {now - account.since:.0f} s, all connections "
            f"together {self.total}, "
            f"the limit is maxBufferedBytes={self.limit}"
        )

    def _forget(self, connection: K) -> None:
        del self._accounts[connection]
        self._paused.pop(connection, None)
