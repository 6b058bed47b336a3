"""A store full of old files, on a disk that says how full it is."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore

from ..sim import ManualClock
from .world import STORE_HOST, bodies_of, config_of, put_ok

HOUR_S = 3600
LOG_FILE = 8192
ANY_HOUR = ";".join(map(str, range(24)))


class FillingDisk(PosixDisk):
    """Says how full it is; each deleted file of the commit log makes a difference of ``step``."""

    def __init__(self, ratio: float = 0.5) -> None:
        self.ratio: float | None = ratio
        self.looks = 0
        self.step = 0.0

    def used_ratio(self, path: Path) -> float:
        if self.ratio is None:
            raise OSError("nobody knows")
        if path.name == "commitlog":
            self.looks += 1
            return self.ratio - (self.looks - 1) * self.step
        return 0.1


class World:
    """A store of 12 files with 3 messages each, the oldest file 12 hours old, the newest one
    hour."""

    def __init__(self, root: Path, disk: Disk | None = None, **settings: Any) -> None:
        self.root = root
        self.clock = ManualClock()
        self.disk = disk or FillingDisk()
        pauses = {"delete_commit_log_files_interval": 0, "delete_consume_queue_files_interval": 0}
        self.config = config_of(
            root,
            **(
                {"delete_when": other_hour(self.clock), "file_reserved_time": 6} | pauses | settings
            ),
        )
        self.store = self.open()
        self.bodies = [b"%d-" % number + bytes(2500) for number in range(36)]
        for body in self.bodies:
            put_ok(self.store, "T", body=body)
        asyncio.run(self.store.sync())
        for number, path in enumerate(self.log_files()):
            os.utime(path, times=(self.clock.time_ms() / 1000 - (12 - number) * HOUR_S,) * 2)

    def open(self) -> MessageStore:
        return MessageStore.open(self.config, self.clock, store_host=STORE_HOST, disk=self.disk)

    def log_files(self) -> list[Path]:
        return sorted((self.root / "commitlog").iterdir())

    def queue_files(self, topic: str = "T") -> list[int]:
        return [
            int(path.name) for path in sorted((self.root / "consumequeue" / topic / "0").iterdir())
        ]

    def clean(self, rounds: int = 1) -> None:
        async def play() -> None:
            for _ in range(rounds):
                await self.store.cleaning.clean()

        asyncio.run(play())

    def check(self, files: int) -> None:
        """So many files of the log are left, all their messages can be read, none of the others."""
        store, gone = self.store, 3 * (12 - files)
        assert [int(path.name) for path in self.log_files()] == [
            number * LOG_FILE for number in range(12 - files, 12)
        ]
        assert [file.start for file in store._log.files.files] == [
            int(path.name) for path in self.log_files()
        ]
        assert store.min_phy_offset == (12 - files) * LOG_FILE
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (gone, 36)
        assert bodies_of(store) == self.bodies[gone:]
        queue = store._queues.get("T", 0)
        assert queue is not None
        assert [file.start for file in queue.files.files] == self.queue_files()
        assert self.queue_files() == [
            start for start in range(0, 720, 200) if start + 200 > gone * 20
        ]


def other_hour(clock: ManualClock) -> str:
    """An hour of the day that it is not."""
    return str((time.localtime(clock.time_ms() / 1000).tm_hour + 12) % 24)
