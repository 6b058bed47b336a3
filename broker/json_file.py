"""A table of the broker in a file with a backup: ``config/topics.json`` and its like (``commitlog.md`` §15; ConfigManager).

Text in, text out; what it means is the owner's business. ``remoting/persist.py`` tells how a file is replaced.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ..remoting.persist import backup_of, read_file, replace_file
from ..store.errors import StoreFileError, translated

__all__ = ["JsonFile"]

log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class JsonFile:
    """One file with its backup. Its methods block."""

    __slots__ = ("path", "restored")

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.restored: bool = False
        """``load`` did not find what was saved last."""

    @property
    def backup_path(self) -> Path:
        return backup_of(self.path)

    def load(self, decode: Callable[[str], T]) -> T | None:
        """What ``decode`` makes of the file; of the backup when the file is missing, empty or refused: the log tells.

        ``decode`` raises ValueError for text it cannot use. None when there is neither. Raises
        StoreFileError when the backup is refused too: then somebody has to look, starting empty would lose
        the configuration.
        """
        value, problem = _decoded(self.path, decode)
        if problem is None:
            return value
        value, backup_problem = _decoded(self.backup_path, decode)
        if backup_problem is None:
            self._restore(problem)
        elif (refusal := problem.error or backup_problem.error) is not None:
            raise StoreFileError(
                self.path, f"cannot be used and neither can its .bak: {refusal}; repair or remove both"
            ) from refusal
        elif "empty" in (problem.text, backup_problem.text):
            self.restored = True
            log.error("%s is %s and has no backup: what stood in it is LOST", self.path, problem.text)
        return value

    def _restore(self, problem: _Problem) -> None:
        """Work goes on with the backup."""
        self.restored = True
        with translated(self.backup_path, "cannot be looked at"):
            written = datetime.datetime.fromtimestamp(self.backup_path.stat().st_mtime).astimezone()
        log.error(
            "%s %s: the content before its last change is used, %s, written %s; what has changed since is LOST",
            self.path,
            f"is {problem.text}" if problem.error is None else f"cannot be used ({problem.error})",
            self.backup_path.name,
            written.isoformat(" ", "seconds"),
        )

    def save(self, text: str) -> None:
        """Replace the content; it is on the disk then. Raises StoreFileError; the old content is then kept.

        Content that ``load`` refused does not become the backup, which is all there is: it is put aside as ``.damaged``.
        """
        aside = self.path.with_name(self.path.name + ".damaged") if self.restored else None
        with translated(self.path, "cannot be written"):
            replace_file(self.path, text, aside)
        self.restored = False


class _Problem(NamedTuple):
    """Why a file is not used: it is ``missing``, ``empty``, or ``refused`` by the decoder."""

    text: str
    error: ValueError | None = None


def _decoded(path: Path, decode: Callable[[str], T]) -> tuple[T | None, _Problem | None]:
    text = _read(path)
    if text is None or not text.strip():
        return None, _Problem("missing" if text is None else "empty")
    try:
        return decode(text), None
    except ValueError as error:
        return None, _Problem("refused", error)


def _read(path: Path) -> str | None:
    with translated(path, "cannot be read"):
        return read_file(path)
