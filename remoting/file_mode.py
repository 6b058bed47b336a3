"""Who may read what a daemon writes (property ``fileMode``).

Every file and folder that a process makes has the rights that its umask leaves, so that is what is
set, once, before the first of them: nobody who makes a file has to think of it. Files that are
there keep theirs, also when they are replaced (``persist.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path


class FileMode(Enum):
    """Of new files. Their folders may be entered by who may read them."""

    OWNER = "0600"
    GROUP_READS = "0640"
    GROUP_WRITES = "0660"
    ALL_READ = "0644"


@contextmanager
def files_are(mode: FileMode) -> Iterator[None]:
    """Within the block this process makes files of that mode, or of a stricter one if its umask is
    stricter."""
    bits = int(mode.value, 8)
    with _allowed(bits | (bits & 0o444) >> 2):
        yield


@contextmanager
def files_are_as_open_as(folder: Path) -> Iterator[None]:
    """Within the block nobody may do more with new files than with this folder. Raises ``OSError``
    when there is none."""
    with _allowed(folder.stat().st_mode):
        yield


@contextmanager
def _allowed(bits: int) -> Iterator[None]:
    forbidden = 0o777 & ~bits
    before = os.umask(0o777)
    os.umask(before | forbidden)
    try:
        yield
    finally:
        os.umask(before)
