"""A table of the broker in a file with a backup: ``config/topics.json`` and its like (``commitlog.md`` §15; ConfigManager).

Text in, text out; what it means is the owner's business. ``remoting/persist.py`` tells how a file is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from ..remoting.persist import backup_of, read_file, replace_file
from ..store.errors import StoreFileError, translated

__all__ = ["JsonFile"]

T = TypeVar("T")


class JsonFile:
    """One file with its backup. Its methods block."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    @property
    def backup_path(self) -> Path:
        return backup_of(self.path)

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
        """Replace the content; it is on the disk then. Raises StoreFileError; the old content is then kept."""
        with translated(self.path, "cannot be written"):
            replace_file(self.path, text)


def _read(path: Path) -> str | None:
    with translated(path, "cannot be read"):
        return read_file(path)
