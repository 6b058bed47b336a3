"""A disk in memory that forgets, when the power fails, what was not synced.

Of a file that was written since its last sync each sector of 512 bytes may be the old or the new
one, and a write may end in the middle of one; the newest files that were never synced may be empty.
Names are kept: that they are synced is tried elsewhere (``tests/fault``).
"""

from __future__ import annotations

from random import Random

from ..store.memory_disk import Content, MemoryDisk

SECTOR = 512


class SimulatedDisk(MemoryDisk):
    """Of one machine. A process that starts gets a ``copy`` of what the last one left."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[int, bytes] = {}
        """What was synced of a content, by its identity."""

    def sync(self, fd: int) -> None:
        super().sync(fd)
        content = self._open[fd][0]
        self.durable[id(content)] = bytes(content)

    def copy(self) -> SimulatedDisk:
        other = super().copy()
        assert isinstance(other, SimulatedDisk)
        for path, content in self.files.items():
            if id(content) in self.durable:
                other.durable[id(other.files[path])] = self.durable[id(content)]
        return other

    def after_power_failure(self, random: Random) -> SimulatedDisk:
        other = self.copy()
        empty = other._without_length(random)
        for path in sorted(other.files):
            content = other.files[path]
            synced = other.durable.get(id(content), b"")
            left = b"" if path in empty else _left(bytes(content), synced, random)
            content = other.files[path] = Content(left)
            other.durable[id(content)] = left
        return other

    def _without_length(self, random: Random) -> set[str]:
        """The newest files of a folder may be empty, unless they were synced."""
        found: set[str] = set()
        for folder in sorted({path.rpartition("/")[0] for path in self.files}):
            inside = sorted(path for path in self.files if path.rpartition("/")[0] == folder)
            for path in reversed(inside):
                if id(self.files[path]) in self.durable or random.random() < 0.7:
                    break
                found.add(path)
        return found


def _left(written: bytes, synced: bytes, random: Random) -> bytes:
    before = synced[: len(written)].ljust(len(written), b"\0")
    if before == written:
        return written
    loss = random.choice([0.0, 0.1, 0.5, 1.0])
    if random.random() < 0.3:
        at = next(at for at in range(len(written)) if written[at] != before[at])
        torn = random.randint(at, min(len(written), at + 4096))
        return written[:torn] + before[torn:]
    parts = []
    for at in range(0, len(written), SECTOR):
        new, old = written[at : at + SECTOR], before[at : at + SECTOR]
        parts.append(old if new != old and random.random() < loss else new)
    return b"".join(parts)
