"""That something was put, for somebody who wants to know it once per turn of the event loop: the
leader of a DLedger group, which pushes it to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


class AppendNotice:
    """Stands in the place of the index at the writer of a store where only what is committed is
    indexed."""

    keys: Final = None

    def __init__(self) -> None:
        self.idle: bool = True
        """Nobody was told since somebody looked the last time; who looks sets it."""
        self.on_appended: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Something was put."""
        self.idle = False
        self.on_appended()
