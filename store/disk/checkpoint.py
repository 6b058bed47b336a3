"""The checkpoint: up to where commit log, consume queues and index were certainly on the disk
(class StoreCheckpoint).

4096 bytes, big-endian (commitlog.md §14)::

    0     8  physicMsgTimestamp    store time of the last message that was synced in the commit log
    8     8  logicsMsgTimestamp    ... whose consume queue entry was synced
    16    8  indexMsgTimestamp     ... of the last complete and synced index file
    24   16  used by 5.x, kept as it is
    4056 16  physicMsgTimestamp and logicsMsgTimestamp once more
    4072  8  safePhyOffset         every record below, its consume queue entry and its index items
                                   were synced
    4080  8  "aiormq01"
    4088  8  CRC-32 of the 32 bytes before

The lower part is the original's. The upper part is ours: a position does not depend on a clock. It
counts only while its copy of the two timestamps equals the lower part: otherwise a broker of the
original has worked here since.
"""

from __future__ import annotations

import errno
import logging
import struct
import zlib
from pathlib import Path
from typing import Final

from ..model.errors import SyncFailedError, is_of_bad_sector, translated
from .disk import Disk

log: Final = logging.getLogger(__name__)

_SIZE: Final = 4096
_TIMES: Final = struct.Struct(">qqq")
_OWN: Final = struct.Struct(">qqq8s")
_CRC: Final = struct.Struct(">Q")
_OWN_AT: Final = 4056
_MARK: Final = b"aiormq01"


class Checkpoint:
    """The three timestamps and the safe position. Change the attributes, then ``save``."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path: Final = path
        self._disk: Final = disk
        self._content = bytes(_SIZE)
        self._named = False
        """Its name is on the disk."""
        self.physic_msg_timestamp: int = 0
        self.logics_msg_timestamp: int = 0
        self.index_msg_timestamp: int = 0
        self.safe_phy_offset: int | None = None
        """None when nobody knows, for example after a broker of the original."""
        self.saved_phy_offset: int | None = None
        """The same, as the disk has it at the least."""

    def load(self) -> None:
        """Read the file; one that is missing, cut short, or on a bad sector claims nothing. Raises
        StoreFileError."""
        with translated(self.path, "cannot be read"):
            try:
                content = self._disk.contents(self.path)
            except FileNotFoundError:
                return
            except OSError as error:
                if not is_of_bad_sector(error):
                    raise
                log.error("%s cannot be read, it claims nothing: %s", self.path, error)
                return
        self._content = content[:_SIZE].ljust(_SIZE, b"\0")
        times = _TIMES.unpack_from(self._content)
        self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp = times
        physic, logics, safe, mark = _OWN.unpack_from(self._content, _OWN_AT)
        (crc,) = _CRC.unpack_from(self._content, _OWN_AT + _OWN.size)
        own = self._content[_OWN_AT : _OWN_AT + _OWN.size]
        if mark == _MARK and crc == zlib.crc32(own) and (physic, logics) == times[:2]:
            self.safe_phy_offset = self.saved_phy_offset = safe

    @property
    def timestamps(self) -> tuple[int, int, int]:
        """All three."""
        return self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp

    @property
    def min_timestamp(self) -> int:
        """Messages stored up to then are in the log and in the queues, less 3 s for what lies
        between (commitlog.md §11.B2); at least 0."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - 3000)

    def save(self) -> None:
        """Write and sync; for a worker thread. Only after what it claims was synced. Raises
        StoreFileError: then it can be tried again, for all of it is written each time;
        SyncFailedError when the disk is broken.
        """
        content = bytearray(self._content)
        times = (self.physic_msg_timestamp, self.logics_msg_timestamp)
        _TIMES.pack_into(content, 0, *times, self.index_msg_timestamp)
        own = (
            b"" if self.safe_phy_offset is None else _OWN.pack(*times, self.safe_phy_offset, _MARK)
        )
        own += _CRC.pack(zlib.crc32(own)) if own else b""
        content[_OWN_AT:] = own.ljust(_SIZE - _OWN_AT, b"\0")
        self._content = bytes(content)
        with translated(self.path, "cannot be written"):
            fd = self._disk.open(self.path, "make")
            try:
                self._disk.write(fd, self._content, 0)
                self._sync(fd)
            finally:
                self._disk.close(fd)
        if not self._named:
            self._disk.sync_directory(self.path.parent)
            self._named = True
        self.saved_phy_offset = self.safe_phy_offset

    def _sync(self, fd: int) -> None:
        try:
            self._disk.sync(fd)
        except OSError as error:
            if error.errno == errno.EIO:
                raise SyncFailedError(self.path, f"cannot be synced: {error.strerror}") from error
            raise
