"""A table in a file with a backup: ``config/topics.json``, ``offsets.json`` ... (``commitlog.md``
§15; ConfigManager).

Text in, text out; what it means is the owner's business. ``persist.py`` tells how a file is
replaced.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from .persist import backup_of, read_file, replace_file

log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class UnusableFileError(ValueError):
    """Neither a file nor its backup can be used."""


class BackedFile:
    """One file with its backup. Its methods block."""

    __slots__ = ("_lost", "path", "restored")

    def __init__(self, path: Path, lost: str = "what has changed since is LOST") -> None:
        """``lost``: what follows when the content before the last change is used, for the log."""
        self.path: Final = path
        self._lost: Final = lost
        self.restored: bool = False
        """``load`` did not find what was saved last."""

    @property
    def backup_path(self) -> Path:
        return backup_of(self.path)

    def written_ns(self) -> int:
        """When that was done last, since 1970; 0 when it never was. Raises OSError."""
        for path in (self.path, self.backup_path):
            with suppress(FileNotFoundError):
                return path.stat().st_mtime_ns
        return 0

    def load(self, decode: Callable[[str], T]) -> T | None:
        """What ``decode`` makes of the file; of the backup when the file is missing, empty or
        refused: the log tells, once.

        ``decode`` raises ValueError for text it cannot use. None when there is neither. Raises
        OSError, and UnusableFileError when the backup is refused too: then somebody has to look,
        starting empty would lose everything.
        """
        value, problem = _decoded(self.path, decode)
        if problem is None:
            self.restored = False
            return value
        value, backup_problem = _decoded(self.backup_path, decode)
        if backup_problem is None:
            self._restore(problem)
        elif (refusal := problem.error or backup_problem.error) is not None:
            raise UnusableFileError(
                f"cannot be used and neither can its .bak: {refusal}; repair or remove both"
            ) from refusal
        elif "empty" in (problem.text, backup_problem.text):
            self._tell(
                "%s is %s and has no backup: what stood in it is LOST", self.path, problem.text
            )
        return value

    def _restore(self, problem: _Problem) -> None:
        """Work goes on with the backup."""
        written = datetime.datetime.fromtimestamp(self.backup_path.stat().st_mtime).astimezone()
        self._tell(
            "%s %s: the content before its last change is used, %s, written %s; %s",
            self.path,
            f"is {problem.text}" if problem.error is None else f"cannot be used ({problem.error})",
            self.backup_path.name,
            written.isoformat(" ", "seconds"),
            self._lost,
        )

    def _tell(self, line: str, *values: object) -> None:
        if not self.restored:
            log.error(line, *values)
        self.restored = True

    def save(self, text: str) -> None:
        """Replace the content; it is on the disk then. Raises OSError; the old content is then
        kept.

        Content that ``load`` refused does not become the backup, which is all there is: it is put
        aside as ``.damaged``.
        """
        replace_file(
            self.path,
            text,
            self.path.with_name(self.path.name + ".damaged") if self.restored else None,
        )
        self.restored = False


class _Problem(NamedTuple):
    """Why a file is not used: it is ``missing``, ``empty``, or ``refused`` by the decoder."""

    text: str
    error: ValueError | None = None


def _decoded(path: Path, decode: Callable[[str], T]) -> tuple[T | None, _Problem | None]:
    text = read_file(path)
    if text is None or not text.strip():
        return None, _Problem("missing" if text is None else "empty")
    try:
        return decode(text), None
    except ValueError as error:
        return None, _Problem("refused", error)
