"""Files that are replaced as a whole: ``config/topics.json`` and its like (commitlog.md §15; class
ConfigManager).

Text in, text out; what it means is the owner's business. Saving writes ``<file>.tmp``, keeps the old content
in ``<file>.bak`` and renames, each step synced, so that a crash at any moment leaves a whole file under one
of the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from .errors import StoreFileError
from .mapped_file import Disk

__all__ = ["JsonConfigFile"]

T = TypeVar("T")


class JsonConfigFile:
    """One file with its backup."""

    __slots__ = ("_disk", "path")

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.path: Final = path
        self._disk: Final = disk or Disk()

    @property
    def backup_path(self) -> Path:
        return self.path.with_name(self.path.name + ".bak")

    def load(self, decode: Callable[[str], T]) -> T | None:
        """What ``decode`` makes of the file; of the backup when the file is missing, empty or refused.

        ``decode`` raises ValueError for text it cannot use. None when there is neither. Raises
        StoreFileError when the backup is refused too: then somebody has to look, starting empty would lose
        the configuration.
        """
        refusal: ValueError | None = None
        for path in (self.path, self.backup_path):
            text = _read(path)
            if text is None or not text.strip():
                continue
            try:
                return decode(text)
            except ValueError as error:
                refusal = error
        if refusal is not None:
            raise StoreFileError(
                self.path, f"cannot be used and neither can its .bak: {refusal}; repair or remove both"
            ) from refusal
        return None

    def save(self, text: str) -> None:
        """Replace the content. Blocks until it is on the disk. Raises StoreFileError; the old content is
        then kept.
        """
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(temporary, text.encode())
            if self.path.exists():
                self._write(self.backup_path, self.path.read_bytes())
            temporary.replace(self.path)
            self._disk.sync_directory(self.path.parent)
        except OSError as error:
            raise StoreFileError(self.path, f"cannot be written: {error.strerror}") from error

    def _write(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            self._disk.sync(file.fileno())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFileError(path, f"cannot be read: {error.strerror}") from error
