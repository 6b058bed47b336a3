"""A ``LocalCluster`` in a thread, for programs without asyncio."""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, suppress

from .daemon.event_loop import new_event_loop


class ClusterThread:
    """Runs it on a loop of its own, from ``start`` to ``stop``."""

    def __init__(self, cluster: AbstractAsyncContextManager[object]) -> None:
        self._cluster = cluster
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="local-cluster")
        self._stop = asyncio.Event()
        self._finished: Future[None] | None = None
        self._holding: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._given_up = False

    def start(self) -> None:
        """Returns when the cluster runs; raises what keeps it from running, or interrupts this."""
        started: Future[None] = Future()
        self._finished = self._threads.submit(self._run, started)
        try:
            wait((started, self._finished), return_when=FIRST_COMPLETED)
        except BaseException:  # nobody else would end it, and Python waits for its thread
            self._give_up()
            raise
        if self._finished.done():
            self._threads.shutdown()
            self._finished.result()

    def stop(self) -> None:
        """Returns when the cluster has ended; raises what ended it before."""
        assert self._finished is not None
        assert self._holding is not None
        if not self._finished.done():
            self._holding[0].call_soon_threadsafe(self._stop.set)
        self._threads.shutdown()
        self._finished.result()

    def _give_up(self) -> None:
        self._given_up = True
        if self._holding is not None:
            loop, task = self._holding
            with suppress(RuntimeError):  # it has ended meanwhile, and so has the loop
                loop.call_soon_threadsafe(task.cancel)
        self._threads.shutdown()

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._hold(started))

    async def _hold(self, started: Future[None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._holding = asyncio.get_running_loop(), task
        if self._given_up:  # looked at behind that: one of both threads sees the other's word
            return
        async with self._cluster:
            started.set_result(None)
            await self._stop.wait()
