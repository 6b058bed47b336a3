"""Disks that fail: full ones, and one that loses what was not synced."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

from aiorocketmq.store.mapped_file import Disk

SECTOR = 512


class FullDisk(Disk):
    """Has ``free`` bytes left to reserve."""

    def __init__(self, free: int) -> None:
        self.free = free

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if length > self.free:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.free -= length
        super().allocate(fd, offset, length)


class BrokenDisk(Disk):
    """Syncs fail from some moment on."""

    broken = False

    def sync(self, fd: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        super().sync(fd)


class LossyDisk(Disk):
    """Remembers what was synced, so that a power failure can take the rest."""

    def __init__(self) -> None:
        self.synced: dict[Path, bytes] = {}
        self.named: dict[Path, set[str]] = {}

    def sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.synced[path] = path.read_bytes()

    def sync_directory(self, path: Path) -> None:
        self.named[path.resolve()] = {entry.name for entry in path.iterdir()}

    def fail(self, root: Path, chance: random.Random) -> None:
        """The power fails: of every file each sector is what was synced, or what was written since; a file whose name was
        not synced may be gone, together with everything below."""
        for directory in sorted(root.rglob("*"), reverse=True):
            if directory.is_dir():
                self._lose_names(directory, chance)
        self._lose_names(root, chance)
        for path in root.rglob("*"):
            if path.is_file():
                path.write_bytes(self._mixed(path, chance))
        self._everything_left_is_on_the_disk(root)

    def _everything_left_is_on_the_disk(self, root: Path) -> None:
        directories = [root, *(path for path in root.rglob("*") if path.is_dir())]
        self.named = {path.resolve(): {entry.name for entry in path.iterdir()} for path in directories}
        self.synced = {path.resolve(): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def _lose_names(self, directory: Path, chance: random.Random) -> None:
        kept = self.named.get(directory.resolve(), set())
        for entry in directory.iterdir():
            if entry.name not in kept and entry.is_file() and chance.random() < 0.3:
                entry.unlink()

    def _mixed(self, path: Path, chance: random.Random) -> bytes:
        written = path.read_bytes()
        synced = self.synced.get(path.resolve(), b"").ljust(len(written), b"\0")
        loss = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        parts = []
        for at in range(0, len(written), SECTOR):
            source = synced if chance.random() < loss else written
            parts.append(source[at : at + SECTOR])
        return b"".join(parts)
