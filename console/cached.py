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
    """``fresh_s``: how old an answer may be before another one is fetched."""

    def __init__(
        self, load: Callable[[], Awaitable[T]], fresh_s: float, clock: Clock, tasks: TaskSet
    ) -> None:
        self._load = load
        self._fresh_s = fresh_s
        self._clock = clock
        self._tasks = tasks
        self._dated: Dated[T] | None = None
        self._fetched = float("-inf")
        self._loading: asyncio.Task[None] | None = None
        self._error: RocketMQError | None = None

    async def get(self, *, wait_s: float | None = None) -> Dated[T]:
        """What is there. ``wait_s``: the longest to wait for a first answer, else it raises
        ``RemotingError``.
        Raises what the cluster said where there is no answer at all."""
        age = self._clock.monotonic() - self._fetched
        if age >= self._fresh_s and self._loading is None:
            self._loading = self._tasks.spawn(self._refresh())
        if self._dated is None or age > TOO_OLD * self._fresh_s:
            await self._wait(wait_s)
        if self._dated is None:
            raise self._error or RemotingError("the cluster has not answered yet")
        return self._dated

    def peek(self) -> Dated[T] | None:
        """What is there, without asking for more."""
        return self._dated

    def forget(self) -> None:
        """Something has changed: the next one who looks gets a new answer."""
        self._dated, self._fetched = None, float("-inf")

    async def _wait(self, wait_s: float | None) -> None:
        if self._loading is not None:
            await asyncio.wait((self._loading,), timeout=wait_s)

    async def _refresh(self) -> None:
        try:
            value = await self._load()
        except RocketMQError as error:
            self._error = error
            if self._dated is not None:
                self._dated = self._dated._replace(problem=str(error))
        else:
            self._error, self._dated = None, Dated(value, self._clock.time_ms())
        finally:
            self._fetched = self._clock.monotonic()
            self._loading = None


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
        """``fresh_s``: a number, or what tells it when an answer is asked for first."""
        self._load = load
        self._fresh_s = fresh_s
        self._make = (clock, tasks)
        self._cached: OrderedDict[K, Cached[T]] = OrderedDict()

    def of(self, key: K) -> Cached[T]:
        found = self._cached.get(key)
        if found is None:
            while len(self._cached) >= MOST_KEYS:
                self._cached.popitem(last=False)
            fresh_s = self._fresh_s() if callable(self._fresh_s) else self._fresh_s
            found = Cached(partial(self._load, key), fresh_s, *self._make)
            self._cached[key] = found
        self._cached.move_to_end(key)
        return found
