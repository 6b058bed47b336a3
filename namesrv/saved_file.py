"""A file that follows something in memory: saved in a thread, one save at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..remoting.persist import replace_file


class SavedFile:
    """``text`` says what the file has to hold at the moment; ``save`` makes it so."""

    def __init__(self, path: str, text: Callable[[], str]) -> None:
        self.path = path
        self._text = text
        self._lock = asyncio.Lock()

    async def save(self) -> None:
        """Returns when the text as it is now, or as it was even later, is on the disk. Raises ``OSError``."""
        async with self._lock:
            await asyncio.to_thread(replace_file, self.path, self._text())
