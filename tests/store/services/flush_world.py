"""A store whose services run, with a clock that is moved by hand and a disk that is watched."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore

from ...sim import ManualClock
from ..world import STORE_HOST, config_of


class WatchedDisk(PosixDisk):
    """Remembers what was synced; can be made to hang."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def sync(self, fd: int) -> None:
        self.synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).parent.name)
        self.go_on.wait()
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        if not threading.current_thread().name.startswith(
            "store-allocation"
        ):  # that one names the next file, at any time
            self.synced.append(f"{path.name}/")
        super().sync_directory(path)


class Running:
    """A store whose services run, a clock that is moved by hand, a disk that is watched."""

    def __init__(self, root: Path, disk: WatchedDisk | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.disk = disk or WatchedDisk()
        self.root = root
        self.store = MessageStore.open(
            config_of(root, **settings), self.clock, store_host=STORE_HOST, disk=self.disk
        )
        self.disk.synced.clear()

    def run(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            services = asyncio.ensure_future(self.store.run())
            await self.until(
                lambda: len(self.clock._sleepers) == 5
            )  # log, queues, cleaning, disk, scrub
            try:
                await script()
            finally:
                self.disk.go_on.set()
                services.cancel()
                await asyncio.wait([services])
            assert services.cancelled()

        asyncio.run(asyncio.wait_for(whole(), 60))

    async def until(self, condition: Callable[[], bool], step: float = 0.0) -> None:
        """``step``: the clock goes on meanwhile, but not while the disk works: how long that takes
        must not decide what is due next."""
        while not condition():
            if step:
                self.clock.advance(step)
                if self.disk.go_on.is_set():
                    await self.settle()
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """Let everything happen that is due: the threads are idle and the loop has nothing left to
        do."""
        for _ in range(20):
            await asyncio.get_running_loop().run_in_executor(
                self.store.flush._threads, lambda: None
            )
            await asyncio.sleep(0)

    @property
    def flushed(self) -> bool:
        return self.store.flushed_offset == self.store.max_phy_offset
