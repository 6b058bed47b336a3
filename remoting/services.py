"""Owned tasks. A service is one ``async def run(self)`` that works until it is cancelled and cleans
up in ``finally``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from .clock import Clock

log: Final = logging.getLogger(__name__)

T = TypeVar("T")

_LAST_PATIENCE_S: Final = 1.0
"""For tasks that were cancelled, when whoever waits for them is cancelled too."""


class Service(Protocol):
    """Something that runs until cancelled."""

    async def run(self) -> None: ...


async def run_services(*services: Service) -> None:
    """Run services side by side until cancelled. When one fails the others are cancelled and its
    error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for service in services:
                group.create_task(service.run(), name=type(service).__name__)
    except BaseExceptionGroup as group_error:
        if len(group_error.exceptions) == 1:
            raise group_error.exceptions[0] from None
        raise


async def run_stages(*stages: Sequence[Service]) -> None:
    """Run all services until cancelled; then those of the first stage end, after them those of the
    second, and so on."""
    first, *later = stages
    if not later:
        await run_services(*first)
        return
    async with asyncio.TaskGroup() as group:
        others = group.create_task(run_stages(*later))
        try:
            await run_services(*first)
        finally:
            others.cancel()


async def happens_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for an event, but no longer than that. False: it has not happened."""
    waits = asyncio.ensure_future(event.wait())
    timer = clock.call_later(seconds, waits.cancel)
    try:
        await asyncio.wait((waits,))
    finally:
        timer.cancel()
        if waits.cancel():
            await asyncio.wait((waits,))
    return event.is_set()


async def to_the_end(work: Coroutine[Any, Any, T], hurry: Callable[[], None] = lambda: None) -> T:
    """Await ``work`` to its end, also when the caller is cancelled meanwhile: it is cancelled then.
    For the end of things, for threads, and what takes a limited time; ``hurry`` is called then to
    make it end sooner."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.warning("failed at the end error=%s", failure)
        raise cancelled
    return task.result()


class TaskSet:
    """Owns the tasks of an object whose ``start`` and ``stop`` may be called from different tasks
    (clients).

    A task that ends with an unexpected error is reported at once as a bug; ``close`` cancels the
    others and waits for them.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """Cancel every task but the caller's and wait until they have ended; when that is cancelled
        too, a second longer."""
        tasks = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            await to_the_end(_wait(tasks, _LAST_PATIENCE_S))
            raise

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical(
                "task failed owner=%s task=%s", self._name, task.get_name(), exc_info=error
            )


async def _wait(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    await asyncio.wait(tasks, timeout=seconds)
