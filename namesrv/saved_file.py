"""A file that follows something in memory: saved in a thread, one save at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..daemon.persist import replace_file


class SavedFile:
    """``text`` says what the file has to hold at the moment; ``save`` makes it so."""

    def __init__(self, path: str, text: Callable[[], str]) -> None:
        self.path = path
        self._text = text
        self._lock = asyncio.Lock()
        self._wanted = 0
        self._saved = 0

    async def save(self) -> None:
        """Returns when the text as it is now, or as it was even later, is on the disk. Raises
        ``OSError``."""
        self._wanted = number = self._wanted + 1
        async with self._lock:
            if self._saved < number:  # otherwise a save that began later took this change along
                number = self._wanted
                await asyncio.to_thread(replace_file, self.path, self._text())
                self._saved = number
