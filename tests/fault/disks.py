"""Disks that fail: full ones, and one that loses what was not synced."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

from aiorocketmq.store.disk.system_disk import PosixDisk

SECTOR = 512


class FullDisk(PosixDisk):
    """Has ``free`` bytes left to reserve."""

    def __init__(self, free: int) -> None:
        self.free = free

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if length > self.free:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.free -= length
        super().allocate(fd, offset, length)


class BrokenDisk(PosixDisk):
    """Syncs fail from some moment on."""

    broken = False

    def sync(self, fd: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        super().sync(fd)


class BadSectorDisk(PosixDisk):
    """A page of a file cannot be read, nor written in part, until it is written as a whole."""

    def __init__(self) -> None:
        self.bad: dict[str, int] = {}
        """Where it begins, by the ends of paths."""

    def read(self, fd: int, length: int, position: int) -> bytes:
        _, at = self._bad_of(fd)
        if at is not None and position < at + self.page_size and at < position + length:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(fd, length, position)

    def read_into(self, fd: int, room: memoryview, position: int) -> int:
        self.read(fd, len(room), position)
        return super().read_into(fd, room, position)

    def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        name, at = self._bad_of(fd)
        if at is not None and position < at + self.page_size and at < position + len(data):
            if position > at or position + len(data) < at + self.page_size:
                raise OSError(errno.EIO, "Input/output error")
            del self.bad[name]
        return super().write(fd, data, position)

    def contents(self, path: Path) -> bytes:
        if any(str(path).endswith(name) for name in self.bad):
            raise OSError(errno.EIO, "Input/output error")
        return super().contents(path)

    def delete(self, path: str | Path) -> None:
        super().delete(path)
        for name in [name for name in self.bad if str(path).endswith(name)]:
            del self.bad[name]  # what is made anew lies elsewhere

    def _bad_of(self, fd: int) -> tuple[str, int | None]:
        path = os.readlink(f"/proc/self/fd/{fd}")
        name = next((name for name in self.bad if path.endswith(name)), "")
        return name, self.bad.get(name)


class PowerCut(Exception):
    """The power failed in the middle of something."""


class LossyDisk(PosixDisk):
    """Remembers what was synced, so that a power failure can take the rest.

    What it may take, as POSIX allows it: sectors of 512 bytes that were written since the last
    sync, or everything behind a byte in the middle of a write; the length of a file that was never
    synced; names of files and folders since the last sync of the folder above. A file that was
    deleted since then may be there again.
    """

    def __init__(self) -> None:
        self.synced: dict[Path, bytes] = {}
        self.named: dict[Path, set[str]] = {}
        self.syncs_left = -1
        """After so many more syncs the next one raises ``PowerCut``; -1: never."""

    def sync(self, fd: int) -> None:
        self._count()
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.synced[path] = path.read_bytes()

    def sync_directory(self, path: Path) -> None:
        self._count()
        self.named[path.resolve()] = {entry.name for entry in path.iterdir()}

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.synced[target.resolve()] = self.synced.pop(source.resolve())

    def _count(self) -> None:
        if not self.syncs_left:
            raise PowerCut
        self.syncs_left -= 1

    def forget_folder(self, directory: Path) -> None:
        """A folder was deleted, for good: what is made there later under the same names has nothing
        of it."""
        for path in [path for path in self.synced if path.is_relative_to(directory.resolve())]:
            del self.synced[path]

    def fail(self, root: Path, chance: random.Random) -> None:
        """The power fails. What is left afterwards is on the disk."""
        self.syncs_left = -1
        for directory in sorted((root, *root.rglob("*")), reverse=True):
            if directory.is_dir():
                self._lose_names(directory, chance)
                self._bring_back(directory, chance)
                self._lose_lengths(directory, chance)
        for path in sorted(root.rglob("*")):
            if path.is_file():
                written = path.read_bytes()
                left = self._mixed(path, written, chance)
                if (
                    left != written
                ):  # mostly nothing is lost, and making a file anew costs more than all the rest
                    path.write_bytes(left)
        self._everything_left_is_on_the_disk(root)

    def _everything_left_is_on_the_disk(self, root: Path) -> None:
        directories = [root, *(path for path in root.rglob("*") if path.is_dir())]
        self.named = {
            path.resolve(): {entry.name for entry in path.iterdir()} for path in directories
        }
        self.synced = {
            path.resolve(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }

    def _lose_names(self, directory: Path, chance: random.Random) -> None:
        kept = self.named.get(directory.resolve(), set())
        for entry in sorted(directory.iterdir()):
            if entry.name not in kept and chance.random() < 0.3:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _bring_back(self, directory: Path, chance: random.Random) -> None:
        """Deletions reach the disk in their order, and files go from an end: those nearest to what
        is left come back."""
        present = sorted(entry.name for entry in directory.iterdir())
        gone = sorted(self.named.get(directory.resolve(), set()).difference(present))
        older = [name for name in gone if not present or name < present[0]]
        newer = [name for name in gone if present and name > present[-1]]
        back = older[chance.randint(0, len(older)) :] + newer[: chance.randint(0, len(newer))]
        for name in back:
            content = self.synced.get(directory.resolve() / name)
            if content is not None or name == "abort":
                (directory / name).write_bytes(content or b"")

    def _lose_lengths(self, directory: Path, chance: random.Random) -> None:
        """The newest files may be empty, unless they were synced."""
        for path in sorted((path for path in directory.iterdir() if path.is_file()), reverse=True):
            if path.resolve() in self.synced or chance.random() < 0.7:
                break
            path.write_bytes(b"")

    def _mixed(self, path: Path, written: bytes, chance: random.Random) -> bytes:
        before = self.synced.get(path.resolve(), b"").ljust(len(written), b"\0")
        if chance.random() < 0.3:
            torn = chance.choice(_changed(before, written))
            return written[:torn] + before[torn:]
        loss = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        parts = []
        for at in range(0, len(written), SECTOR):
            source = before if chance.random() < loss else written
            parts.append(source[at : at + SECTOR])
        return b"".join(parts)


def _changed(before: bytes, after: bytes) -> range:
    """From the first to behind the last byte that differs."""
    different = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    return range(different[0], different[-1] + 2) if different else range(1)
