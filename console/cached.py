"""An answer of the cluster that several people look at: asked for when somebody looks and it is
old, never otherwise.

Whoever looks gets what is there, with its age, and a new answer is fetched behind that; only where
nothing is there yet, or what is there is too old to show, does the page wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from ..remoting.clock import Clock
from ..remoting.errors import RemotingError, RocketMQError
from ..remoting.services import TaskSet

T = TypeVar("T")
K = TypeVar("K")

MOST_KEYS: Final = 1000
TOO_OLD: Final = 6
"""Times its usual age: a page waits for a new one rather than to show that."""


class Dated(NamedTuple, Generic[T]):
    """An answer and when it was fetched (``time_ms``); ``problem``: why there is no newer one."""

    value: T
    at_ms: int
    problem: str | None = None


class Cached(Generic[T]):
    """``fresh_s``: how old an answer may be before another one is fetched, or what tells it."""

    def __init__(
        self,
        load: Callable[[], Awaitable[T]],
        fresh_s: float | Callable[[], float],
        clock: Clock,
        tasks: TaskSet,
    ) -> None:
        self._load = load
        self._fresh_s = fresh_s if callable(fresh_s) else lambda: fresh_s
        self._clock = clock
        self._tasks = tasks
        self._dated: Dated[T] | None = None
        self._fetched = float("-inf")
        self._loading: asyncio.Task[Dated[T] | None] | None = None
        self._error: RocketMQError | None = None

    async def get(self, *, wait_s: float | None = None) -> Dated[T]:
        """What is there. ``wait_s``: the longest to wait for a first answer, else it raises
        ``RemotingError``.
        Raises what the cluster said where there is no answer at all."""
        dated, loading = self.now(), self._loading
        if loading is not None and (dated is None or self._age_s() > TOO_OLD * self._fresh_s()):
            done, _ = await asyncio.wait((loading,), timeout=wait_s)
            dated = self._dated
            if dated is None and done and not loading.cancelled():
                dated = loading.result()  # it is forgotten already, but came when it was wanted
        if dated is None:
            raise self._error or RemotingError("the cluster has not answered yet")
        return dated

    def now(self) -> Dated[T] | None:
        """What is there, however old it is: a new one comes later."""
        if self._loading is None and self._age_s() >= self._fresh_s():
            self._loading = self._tasks.spawn(self._refresh())
        return self._dated

    def forget(self) -> None:
        """Something has changed: the next one who looks gets an answer that was asked for after
        it."""
        self._dated, self._fetched, self._loading = None, float("-inf"), None

    def _age_s(self) -> float:
        return self._clock.monotonic() - self._fetched

    async def _refresh(self) -> Dated[T] | None:
        """Returns it for those who wait: nobody else gets it where it has been forgotten."""
        dated = None
        try:
            dated = Dated(await self._load(), self._clock.time_ms())
        except RocketMQError as error:
            self._error = error
            if self._dated is not None:
                self._dated = self._dated._replace(problem=str(error))
        finally:
            if self._loading is asyncio.current_task():
                if dated is not None:
                    self._error, self._dated = None, dated
                self._fetched, self._loading = self._clock.monotonic(), None
        return dated


class CachedByKey(Generic[K, T]):
    """One for each topic, group, ...; the ones that nobody has looked at for longest are
    forgotten."""

    def __init__(
        self,
        load: Callable[[K], Awaitable[T]],
        fresh_s: float | Callable[[], float],
        clock: Clock,
        tasks: TaskSet,
    ) -> None:
        """``fresh_s`` as that of ``Cached``."""
        self._load = load
        self._fresh_s = fresh_s
        self._make = (clock, tasks)
        self._cached: OrderedDict[K, Cached[T]] = OrderedDict()

    def of(self, key: K) -> Cached[T]:
        found = self._cached.get(key)
        if found is None:
            while len(self._cached) >= MOST_KEYS:
                self._cached.popitem(last=False)
            found = Cached(partial(self._load, key), self._fresh_s, *self._make)
            self._cached[key] = found
        self._cached.move_to_end(key)
        return found
