"""What a compiled module was made from: setup.py bakes the number in, ``leaves`` compares where the
sources are at hand."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

BAKED_INTO: Final = "built_from.h"
"""Made by setup.py, not a source."""
_KINDS: Final = frozenset({".pyx", ".pxi", ".h"})


def sources(folder: Path) -> list[Path]:
    """What is compiled, in order; nothing where only the package was installed."""
    return sorted(
        path for path in folder.iterdir() if path.suffix in _KINDS and path.name != BAKED_INTO
    )


def fingerprint(folder: Path) -> int:
    """A number that changes with every source: their names and what is in them. 0 without
    sources."""
    found = 0
    for path in sources(folder):
        found = zlib.crc32(path.read_bytes(), zlib.crc32(path.name.encode(), found))
    return found
