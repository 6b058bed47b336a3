"""What is damaged in the commit log, kept for the next start: the one after a crash reads from the
last checkpoint on, and a slave would ask its master for nothing in front of that before the next
scrub finds it.

The file ``damaged`` in the store's root has a line for each place, physical offset and size; there
is none where nothing is damaged. It only says where to look: what comes from another replica proves
itself. The original does not know it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...remoting.outages import Outages
from ..disk.disk import Disk

log: Final = logging.getLogger(__name__)

NAME: Final = "damaged"
_WRITE: Final = (NAME, "write")


class DamageFile:
    """``save`` may run in a thread."""

    def __init__(self, root: Path, disk: Disk, outages: Outages) -> None:
        self.path: Final = root / NAME
        self._disk: Final = disk
        self._outages: Final = outages
        self._saved: dict[int, int] | None = {}
        """What it says; None: not known."""

    def load(self, start: int, end: int) -> dict[int, int]:
        """Sizes by offsets, of those that lie in this part of the log. What cannot be read is left
        out."""
        try:
            text = self._disk.contents(self.path).decode("ascii", "replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("%s cannot be read: %s", self.path, error)
            text = ""
        self._saved = None
        places: dict[int, int] = {}
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                offset, size = map(int, line.split())
                if start <= offset < offset + size <= end:
                    places[offset] = size
        return places

    def save(self, places: Mapping[int, int]) -> None:
        """Nothing, where it says that already. Blocks. A failure costs what the module tells, and
        is logged."""
        if places == self._saved:
            return
        try:
            if places:
                self._write("".join(f"{at} {size}\n" for at, size in sorted(places.items())))
            else:
                self._disk.delete(self.path)
            self._disk.sync_directory(self.path.parent)
        except OSError as error:
            self._outages.fails(log, _WRITE, "%s cannot be written: %s", self.path, error)
        else:
            self._outages.works(_WRITE)
            self._saved = dict(places)

    def _write(self, text: str) -> None:
        temporary = self.path.with_suffix(".tmp")
        fd = self._disk.open(temporary, "replace")
        try:
            view = memoryview(text.encode())
            while view:
                view = view[self._disk.append(fd, view) :]
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        self._disk.replace(temporary, self.path)
