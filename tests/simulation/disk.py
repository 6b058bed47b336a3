"""A disk in memory that forgets, when the power fails, what was not synced.

Of a file that was written since its last sync each sector of 512 bytes may be the old or the new
one, or a single one is old, or all from some sector on; the newest files that were never synced may
be empty.
A file that was made since its folder was synced may be gone; one that was deleted stays deleted.

A call may fail. Where a sync does, what it should have written is taken for written by the kernel:
a later sync does not write it again, though it can be read until the power fails (as of ext4 and
XFS; "fsyncgate").
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from aiorocketmq.store.model.errors import translated, translated_sync

from ..store.memory_disk import Content, MemoryDisk, folder_of

SECTOR = 512
CALLS = (
    "create", "open", "resize", "write", "append", "allocate", "sync", "replace", "delete",
    "delete_tree", "make_directories", "sync_directory", "touch",
)  # fmt: skip
"""Those that may fail; ``create`` is to open a file that is not there yet."""
WAYS = ("gone", "cut", "zeros", "other bytes")
"""In which a file is not what it was: as a whole, or from some place on."""


class SimulatedDisk(MemoryDisk):
    """Of one machine. A process that starts gets a ``copy`` of what the last one left."""

    def __init__(self) -> None:
        super().__init__()
        self.named: set[str] = set()
        """Files whose names were synced with their folders."""
        self.used = 0.1
        """How much of its space, from 0 to 1."""
        self.trouble: Callable[[str], int | None] = lambda _call: None
        """The errno of a call that fails."""
        self.reached: Callable[[str], None] = lambda _step: None
        self.gone: Callable[[str], None] = lambda _path: None
        """Told of each file that has no longer its name."""
        for call in CALLS[1:]:
            setattr(self, call, partial(self._tried, call, getattr(self, call)))

    def _tried(self, call: str, real: Callable[..., Any], *args: Any) -> Any:
        if call == "sync":
            self.reached("unsynced")
        is_new = (
            call == "open" and args[1] in ("make", "replace") and str(args[0]) not in self.files
        )
        number = self.trouble("create" if is_new else call)
        if number is None:
            result = real(*args)
            self.reached(f"disk {call}")
            return result
        if call == "sync":
            self._forget_dirty(self._open[args[0]][0])
        with _meaning(call, number, args[0]):
            raise OSError(number, os.strerror(number))

    def _forget_dirty(self, content: Content) -> None:
        written, synced = bytes(content), content.durable or b""
        known = dict(content.forgotten)
        for at in range(0, len(written), SECTOR):
            sector = written[at : at + SECTOR]
            if sector != synced[at : at + SECTOR]:
                known[at] = sector
        content.forgotten = known

    def sync(self, fd: int) -> None:
        super().sync(fd)
        content = self._open[fd][0]
        if not content.forgotten:
            content.durable = bytes(content)
            return
        written = bytearray(content)
        synced = content.durable or b""
        for at, sector in content.forgotten.items():
            if written[at : at + SECTOR] == sector:  # not written since
                written[at : at + SECTOR] = synced[at : at + SECTOR].ljust(len(sector), b"\0")
        content.durable = bytes(written)

    def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        content = self._open[fd][0]
        if content.forgotten:
            begin, end = position // SECTOR * SECTOR, position + len(data)
            content.forgotten = {
                at: sector for at, sector in content.forgotten.items() if not begin <= at < end
            }
        return super().write(fd, data, position)

    def used_ratio(self, path: Path) -> float:
        return self.used

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        folder = str(path)
        self.named.update(each for each in self.files if folder_of(each) == folder)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.named.discard(str(source))
        self.gone(str(source))

    def delete(self, path: str | Path) -> None:
        super().delete(path)
        self.named.discard(str(path))
        self.gone(str(path))

    def flip(self, path: str, at: int, bit: int) -> bool:
        """A bit of what was synced is another one. False: it was not."""
        content = self.files[path]
        synced = content.durable or b""
        if at >= len(synced) or synced[at] != content[at]:
            return False
        self.put(path, at, bytes([content[at] ^ 1 << bit]))
        return True

    def put(self, path: str, at: int, data: bytes) -> None:
        """A file has other bytes there, and so has the disk as far as it has any."""
        content = self.files[path]
        synced = bytearray(content.durable or b"")
        content[at : at + len(data)] = data
        synced[at : at + len(data)] = data[: max(0, len(synced) - at)]
        content.durable = bytes(synced)

    def spoil(self, path: str, random: Random) -> str:
        """A file is not what it was, in one of ``WAYS``. Says how."""
        content, way = self.files[path], random.choice(WAYS)
        at = random.randrange(len(content) + 1)
        left, rest = content[:at], len(content) - at
        if way == "gone":
            self.delete(path)
            return way
        if way != "cut":
            left += bytes(rest) if way == "zeros" else random.randbytes(rest)
        content[:] = left
        content.durable, content.forgotten = left, {}
        return f"{way} from {at} on"

    def copy(self) -> SimulatedDisk:
        other = super().copy()
        assert isinstance(other, SimulatedDisk)
        other.named, other.used = set(self.named), self.used
        for path, content in self.files.items():
            there = other.files[path]
            there.durable = content.durable
            if folder_of(path).rpartition("/")[2] != "index":
                there.forgotten = content.forgotten
            # what a start indexes again it writes through the mapping, the same bytes, unseen here
        return other

    def after_power_failure(self, random: Random) -> SimulatedDisk:
        other = self.copy()
        for path in sorted(other.files.keys() - other.named):
            if random.random() < 0.3:
                del other.files[path]
        other.named = set(other.files)
        empty = other._without_length(random)
        for path in sorted(other.files):
            content = other.files[path]
            synced = content.durable or b""
            left = b"" if path in empty else _left(bytes(content), synced, random)
            content = other.files[path] = Content(left)
            content.durable = left
        return other

    def _without_length(self, random: Random) -> set[str]:
        """The newest files of a folder may be empty, unless they were synced."""
        found: set[str] = set()
        for folder in sorted({path.rpartition("/")[0] for path in self.files}):
            inside = sorted(path for path in self.files if path.rpartition("/")[0] == folder)
            for path in reversed(inside):
                if self.files[path].durable is not None or random.random() < 0.7:
                    break
                found.add(path)
        return found


def has_begun(call: str, number: int) -> bool:
    """A sync that ended so; a folder is opened for it, which may have failed."""
    return call == "sync" or (call == "sync_directory" and number != errno.EMFILE)


def _meaning(call: str, number: int, what: Any) -> AbstractContextManager[None]:
    if call != "sync_directory":
        return nullcontext()
    return (
        translated_sync(what)
        if has_begun(call, number)
        else translated(what, "cannot be opened to sync it")
    )


def _differ(one: bytes, other: bytes, at: int) -> bool:
    return one[at : at + SECTOR] != other[at : at + SECTOR]


def _left(written: bytes, synced: bytes, random: Random) -> bytes:
    before = synced[: len(written)].ljust(len(written), b"\0")
    if before == written:
        return written
    loss = random.choice([0.0, 0.1, 0.5, 1.0])
    if random.random() < 0.3:
        at = next(at for at in range(len(written)) if written[at] != before[at])
        torn = random.randint(at, min(len(written), at + 4096)) // SECTOR * SECTOR
        return written[:torn] + before[torn:]
    if random.random() < 0.3:
        dirty = [at for at in range(0, len(written), SECTOR) if _differ(written, before, at)]
        lost = random.choice(dirty)
        return written[:lost] + before[lost : lost + SECTOR] + written[lost + SECTOR :]
    parts = []
    for at in range(0, len(written), SECTOR):
        new, old = written[at : at + SECTOR], before[at : at + SECTOR]
        parts.append(old if new != old and random.random() < loss else new)
    return b"".join(parts)
