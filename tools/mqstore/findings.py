"""What a check has to say: findings are damage, notes are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ...daemon.printable import printable

__all__ = ["Finding", "Findings", "span"]


class Finding(NamedTuple):
    """One damaged place."""

    file: str
    """Relative to the store directory."""
    byte: int
    problem: str
    recoverable: bool = False
    """Only unfinished work of a broker that was killed: its next start does it."""

    def __str__(self) -> str:
        return printable(f"{self.file}: byte {self.byte}: {self.problem}")


class Findings:
    """Takes findings and notes, passes each on at once."""

    def __init__(self, root: Path, tell: Callable[[str], None]) -> None:
        self.root: Final = root
        self.count: int = 0
        self.recoverable: int = 0
        self._tell: Final = tell
        self._files: Final[set[str]] = set()

    def has_told_of(self, folder: Path) -> bool:
        """There was a finding about a folder, or a file in it."""
        name = self.relative(folder)
        return any(file == name or file.startswith(f"{name}/") for file in self._files)

    def relative(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def at(self, path: Path, byte: int, problem: str, *, recoverable: bool = False) -> Finding:
        """A finding, not told yet."""
        return Finding(self.relative(path), byte, problem, recoverable)

    def add(self, findings: Iterable[Finding]) -> None:
        """Tell findings in the order of files and bytes."""
        for finding in sorted(findings):
            self.count += 1
            self.recoverable += finding.recoverable
            self._files.add(finding.file)
            self._tell(str(finding))

    def damage(self, path: Path, byte: int, problem: str, *, recoverable: bool = False) -> None:
        self.add([self.at(path, byte, problem, recoverable=recoverable)])

    def note(self, path: Path, problem: str) -> None:
        """Something unusual that harms nobody."""
        self._tell(printable(f"note: {self.relative(path)}: {problem}"))


def span(first: int, last: int) -> str:
    """``5``, or ``5..9``"""
    return str(first) if first == last else f"{first}..{last}"
