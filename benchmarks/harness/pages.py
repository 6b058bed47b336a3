"""Pages of memory that are there.

A virtual machine gives memory that is not used back to its host, and the first touch of every page
costs again what fetching it takes: eight microseconds here, ten times as much as clearing it. A
broker that has run for a while writes its log into pages that the page cache gave up, so a round
that writes much begins with such pages.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_STEP = 1 << 20
ENOUGH_BYTES = 256 << 20
"""More than a broker writes in a round."""


def fetch_pages(folder: Path, size: int = ENOUGH_BYTES) -> None:
    """Have the page cache take so many bytes, and give them up: those are the next ones to be used.
    No byte goes to disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.ftruncate(file.fileno(), size)
        scratch = bytearray(_STEP)
        for at in range(0, size, _STEP):
            os.preadv(file.fileno(), [scratch], at)
