"""A log file that is rotated where it can be, and goes on where it cannot.

Imported by who logs into a file only: it brings pickle and queue along.
"""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from typing import Final

log: Final = logging.getLogger(__name__)


class LogFileHandler(RotatingFileHandler):
    """Python's own loses each line from then on, where a file cannot take another name (somebody
    else owns the folder)."""

    def __init__(self, path: str, max_bytes: int, backups: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        self._max_bytes: Final = max_bytes

    def doRollover(self) -> None:
        """What could not be done is tried again when the file has grown by as much once more."""
        try:
            super().doRollover()
            self.maxBytes = self._max_bytes
        except OSError as error:
            self.stream = self._open()
            self.maxBytes = self.stream.tell() + self._max_bytes
            log.error("the log file cannot be rotated: %s", error)
