"""Telling how far recovery is, once a second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

log: Final = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 1.0


class RecoveryProgress:
    """Is called often while the commit log is read; logs position, percent and speed every
    second."""

    def __init__(
        self, monotonic: Callable[[], float], also: Callable[[int, int], None] | None = None
    ) -> None:
        """``also(phy_offset, end)`` is called every time."""
        self._monotonic: Final = monotonic
        self._also: Final = also
        self._told_at = monotonic()
        self._told_offset = -1
        self._told_records = 0

    def __call__(self, phy_offset: int, end: int, records: int) -> None:
        """``records`` were read, the last one ends at ``phy_offset``, the log probably at
        ``end``."""
        if self._also is not None:
            self._also(phy_offset, end)
        now = self._monotonic()
        if not 0 <= self._told_offset <= phy_offset:  # the beginning, or once more from the start
            self._told_at, self._told_offset, self._told_records = now, phy_offset, records
            return
        seconds = now - self._told_at
        if seconds < _INTERVAL_SECONDS:
            return
        log.info(
            "recovery position=%d of %d (%.1f %%) %.0f MB/s %.0f records/s",
            phy_offset, end, 100 * phy_offset / max(end, phy_offset, 1),
            (phy_offset - self._told_offset) / seconds / 1e6,
            (records - self._told_records) / seconds,
        )  # fmt: skip
        self._told_at, self._told_offset, self._told_records = now, phy_offset, records
