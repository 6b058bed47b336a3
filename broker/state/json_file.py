"""A table of the broker in a file with a backup: ``config/topics.json`` and its like, with the
store's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...daemon.backed_file import BackedFile, UnusableFileError
from ...daemon.persist import put_aside
from ...store.model.errors import StoreFileError, translated

T = TypeVar("T")


class JsonFile(BackedFile):
    """Raises StoreFileError where ``BackedFile`` raises OSError or UnusableFileError."""

    __slots__ = ()

    def written_ns(self) -> int:
        with translated(self.path, "cannot be looked at"):
            return super().written_ns()

    def put_aside(self) -> None:
        """See ``persist.put_aside``."""
        with translated(self.path, "cannot be renamed"):
            put_aside(self.path)

    def load(self, decode: Callable[[str], T]) -> T | None:
        with translated(self.path, "cannot be read"):
            try:
                return super().load(decode)
            except UnusableFileError as error:
                raise StoreFileError(self.path, str(error)) from error.__cause__

    def save(self, text: str) -> None:
        with translated(self.path, "cannot be written"):
            super().save(text)
