"""Writes small store directories: commit log files with their blanks, and consume queues."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from aiorocketmq.remoting.protocol.record import BLANK_SIZE, blank_record
from aiorocketmq.store.queues.consume_queue import CQ_UNIT

from .stored_records import Stored


class WrittenStore:
    """A store as a broker would have left it. ``records`` are as they were written, with their
    offsets."""

    def __init__(
        self, root: Path, records: list[Stored], *, file_size: int = 2000, queue_file_units: int = 5
    ) -> None:
        self.root = root
        self.file_size = file_size
        self.records: list[Stored] = []
        self._queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self._log = bytearray()
        for record in records:
            self._append(record)
        self._write(queue_file_units)

    def _append(self, record: Stored) -> None:
        size = len(record.encode())
        left = self.file_size - len(self._log) % self.file_size
        if size + BLANK_SIZE > left:
            self._log += blank_record(left) + b"\xee" * (left - BLANK_SIZE)
        queue = self._queues[record.topic.decode(), record.queue_id]
        written = msgspec.structs.replace(
            record, phy_offset=len(self._log), queue_offset=len(queue)
        )
        queue.append(CQ_UNIT.pack(written.phy_offset, size, 0))
        self._log += written.encode()
        self.records.append(written)

    def _write(self, queue_file_units: int) -> None:
        log = self.root / "commitlog"
        log.mkdir(parents=True)
        for start in range(0, max(1, len(self._log)), self.file_size):
            (log / f"{start:020d}").write_bytes(
                self._log[start : start + self.file_size].ljust(self.file_size, b"\0")
            )
        for (topic, queue_id), units in self._queues.items():
            folder = self.root / "consumequeue" / topic / str(queue_id)
            folder.mkdir(parents=True)
            size = queue_file_units * CQ_UNIT.size
            data = b"".join(units)
            for start in range(0, len(data), size):
                (folder / f"{start:020d}").write_bytes(
                    data[start : start + size].ljust(size, b"\0")
                )

    def log_file(self, number: int = 0) -> Path:
        return self.root / "commitlog" / f"{number * self.file_size:020d}"

    def overwrite(self, offset: int, data: bytes) -> None:
        """Bytes of the log become others."""
        path = self.log_file(offset // self.file_size)
        content = bytearray(path.read_bytes())
        at = offset % self.file_size
        content[at : at + len(data)] = data[: self.file_size - at]
        path.write_bytes(content)
