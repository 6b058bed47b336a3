"""Which files have had their time (classes CleanCommitLogService, CleanConsumeQueueService;
commitlog.md §12).

Files go for one of three reasons::

    the hour       one of ``deleteWhen``: files older than ``fileReservedTime``
    the disk       more than 75 % used: files older than ``fileReservedTime``
                   more than 85 % used: the oldest files, whatever their age
                   (``cleanFileForciblyEnable``)
                   more than 90 % used: the same, and no message is taken any more
    a person       request 329: files older than ``fileReservedTime``, in the next 20 rounds

In a member of a DLedger group ``fileReservedTime`` counts an hour more (dledger.md §4).

Always the oldest one first, never the last one, at most ten in a round. Pure: time, ages and ratios
come from outside.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from ..model.config import MessageStoreConfig
from ..model.errors import StoreConfigError

MAX_FILES_PER_ROUND: Final = 10
MANUAL_ROUNDS: Final = 20
"""How many rounds one request 329 is good for."""
UNKNOWN_RATIO: Final = -1.0
_HOUR_MS: Final = 3_600_000


class Space(IntEnum):
    """How scarce the disk is."""

    ENOUGH = 0
    SCARCE = 1
    """Files whose time is over go at any hour."""
    URGENT = 2
    """The oldest files go before their time."""
    FULL = 3
    """And messages are refused."""


class DiskUse(msgspec.Struct, frozen=True):
    """How full the disks of the parts of a store are, 0.0 to 1.0 in whole percent,
    ``UNKNOWN_RATIO`` when nobody can tell.
    """

    commit_log: float
    consume_queue: float
    index: float

    def __str__(self) -> str:
        """As the original writes it into its answers."""
        return f"CL: {self.commit_log:5.2f} CQ: {self.consume_queue:5.2f} INDEX: {self.index:5.2f}"


class Rules(msgspec.Struct, frozen=True):
    """What was configured, ready for use. Ratios as those of the disk."""

    hours: frozenset[int]
    reserved_ms: int
    scarce: float
    urgent: float
    full: float
    forcibly: bool

    @staticmethod
    def of(config: MessageStoreConfig) -> Rules:
        """Ratios out of range are moved into it, as in the original. Raises StoreConfigError."""
        return Rules(
            hours=delete_hours(config.delete_when),
            reserved_ms=(config.file_reserved_time + config.enable_dledger_commit_log) * _HOUR_MS,
            scarce=_clamped(config.disk_max_used_space_ratio, 10, 95) / 100,
            urgent=_clamped(config.disk_space_clean_forcibly_ratio, 1, 100) / 100,
            full=_clamped(config.disk_space_warning_level_ratio, 1, 100) / 100,
            forcibly=config.clean_file_forcibly_enable,
        )

    def space(self, use: DiskUse) -> Space:
        """What the scarcer one asks for. (The original asks that of the consume queues only when
        that of the commit log has enough.)"""
        return max(self._level(use.commit_log), self._level(use.consume_queue))

    def _level(self, ratio: float) -> Space:
        if ratio > self.full:
            return Space.FULL
        if ratio > self.urgent:
            return Space.URGENT
        return Space.SCARCE if ratio > self.scarce or ratio < 0 else Space.ENOUGH

    def due(self, hour: int, space: Space, *, manual: bool) -> bool:
        """Whether this is a time to delete at all; ``hour`` is the local one."""
        return manual or space is not Space.ENOUGH or hour in self.hours

    def expired(self, modified_ms: int, now_ms: int, space: Space) -> bool:
        """Whether a file may go that was written to at ``modified_ms`` for the last time."""
        return now_ms >= modified_ms + self.reserved_ms or (self.forcibly and space >= Space.URGENT)


def delete_hours(text: str) -> frozenset[int]:
    """The hours of ``deleteWhen``: ``04``, or several joined by ``;``. Raises StoreConfigError.

    >>> sorted(delete_hours("04;16"))
    [4, 16]
    """
    hours = frozenset(
        int(part) if part.strip().isdecimal() and len(part) < 10 else -1
        for part in text.split(";")
        if part.strip()
    )
    if not hours or not hours <= frozenset(range(24)):
        raise StoreConfigError(
            f"deleteWhen={text}: expected hours of the day (0 to 23) joined by ';', such as 04 or "
            "04;16"
        )
    return hours


def _clamped(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
