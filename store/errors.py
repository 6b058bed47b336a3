"""What can go wrong with a store directory. Each text names the file and says what to do."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MissingFileError", "OutOfSpaceError", "StoreConfigError", "StoreError", "StoreFileError", "StoreLockedError"]


class StoreError(Exception):
    """Base of all errors of the store. The records themselves are judged by ``RecordError``."""


class StoreConfigError(StoreError):
    """A property of the store has a value that it cannot take."""


class StoreFileError(StoreError):
    """A file or directory of the store is not what it must be, or cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class MissingFileError(StoreFileError):
    """There is a hole in a sequence of files."""

    def __init__(self, path: Path, start: int, before: Path, behind: Path) -> None:
        super().__init__(path, f"is {'empty' if path.exists() else 'missing'} between {before.name} and {behind.name}")
        self.start = start
        """Offset of the first byte that is missing."""
        self.stop: int = int(behind.name)
        """Offset of the first byte that is there again."""


class OutOfSpaceError(StoreFileError):
    """The disk (or the quota) is full. Nothing was written; the same call succeeds once there is space."""


class StoreLockedError(StoreError):
    """Another process has the store open."""
