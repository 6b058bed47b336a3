"""Requests whose work is long: in slices (``slices.py``) on the event loop, so that nobody has to
wait for all of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from .dispatch import Body, Context, Outcome, SyncHandler, in_task
from .peer import Peer
from .slices import Steps, at_once

T = TypeVar("T")

_WINDOW_S: Final = 0.020
_AT_ONCE_S: Final = 0.002

SlicedHandler = Callable[[Any, Body, Context], Steps[Outcome]]
"""A handler that yields where others may have their turn. Its body stays valid."""


async def in_slices(steps: Steps[T]) -> T:
    """All of it, with a turn of the event loop after each slice."""
    try:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.sleep(0)
    finally:
        steps.close()


class SlicedRequests:
    """What is done in one slice is answered at once, as long as that takes less than a tenth of the
    time. Of everything else one is worked on at a time, a slice in a turn of the loop: what a
    hundred peers ask together must not make a turn a hundred slices long. Peers come one after the
    other, each with one request in the order in which it sent them: who has one waits for one of
    each, whatever they have sent. To its end, or two heartbeats of a group would be mixed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._window_ends = 0.0
        self._left_s = 0.0
        """Of what may be done at once in this window."""
        self._unfinished = Counter[Peer]()
        self._turns = _Turns()
        self._in_task = in_task(self._to_the_end)

    def handler(self, work: SlicedHandler, *, behind_own: bool = False) -> SyncHandler:
        """``work`` as a handler for the table of a processor. ``behind_own``: it is short, waits
        for what its peer asked before and for nothing else, and is done for a peer that is gone,
        too."""

        def handle(request: Any, body: Body, ctx: Context) -> Outcome:
            data = bytes(body)
            steps = work(request, data, ctx)
            if behind_own and ctx.connection not in self._unfinished:
                return at_once(steps)
            if not self._unfinished and self._may_begin():
                began = self._now()
                try:
                    next(steps)
                except StopIteration as end:
                    outcome: Outcome = end.value
                    return outcome
                finally:
                    self._left_s -= self._now() - began
            self._unfinished[ctx.connection] += 1
            ctx.connection.enqueued(len(data))
            return self._in_task((steps, len(data), behind_own), b"", ctx)

        return handle

    async def alone(self, steps: Steps[T], peer: Peer) -> T:
        """Long work of an ``async`` handler, for ``peer``: one at a time, with the requests
        above."""
        try:
            async with self._turns.turn_of(peer):
                await asyncio.sleep(0)
                return await in_slices(steps)
        finally:
            steps.close()

    def _may_begin(self) -> bool:
        now = self._now()
        if now >= self._window_ends:
            self._window_ends, self._left_s = now + _WINDOW_S, _AT_ONCE_S
        return self._left_s > 0

    async def _to_the_end(
        self, queued: tuple[Steps[Outcome], int, bool], _body: Body, ctx: Context
    ) -> Outcome:
        """Nothing is done for a peer that is not there any more when its turn comes, unless the
        work is for that as well."""
        steps, size, anyway = queued
        try:
            async with self._turns.turn_of(ctx.connection):
                await asyncio.sleep(
                    0
                )  # or all that begin in this turn would be done in it, one after the other
                return await in_slices(steps) if anyway or not ctx.connection.closed else None
        finally:
            steps.close()
            ctx.connection.dequeued(size)
            self._unfinished[ctx.connection] -= 1
            if not self._unfinished[ctx.connection]:
                del self._unfinished[ctx.connection]


class _Turns:
    """One at a time. While several wait, a peer that has had its turn is the last one."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: dict[Peer, deque[asyncio.Future[None]]] = {}
        """Those of each peer in the order in which they came; the peer whose turn is next first."""

    @asynccontextmanager
    async def turn_of(self, peer: Peer) -> AsyncIterator[None]:
        if self._taken:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(peer, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # it had just come
                    self._next()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        """Those that were cancelled are passed over."""
        while self._waiting:
            peer = next(iter(self._waiting))
            turns = self._waiting.pop(peer)
            turn = turns.popleft()
            if turns:
                self._waiting[peer] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
