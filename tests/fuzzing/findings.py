"""Findings as files: the input, and beside it what is wrong and the command that repeats it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from .examine import Finding

MOST_KINDS: Final = 20
"""Of one target: what comes after them is not written down any more."""


class Findings:
    """Those of one target, one file for each kind."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder: Final = folder / target
        self._target: Final = target
        self._kinds: Final[set[str]] = set()

    def add(self, finding: Finding, data: bytes) -> Path | None:
        """Where it was written; None for a kind that is known."""
        if finding.kind in self._kinds or len(self._kinds) >= MOST_KINDS:
            return None
        self._kinds.add(finding.kind)
        kind = re.sub(r"[^A-Za-z0-9.]+", "-", finding.kind).strip("-")
        path = self._folder / f"{kind}-{hashlib.sha1(data).hexdigest()[:8]}"
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        text = f"{repeats(self._target, path)}\n\n{finding.kind}\n{finding.text}\n"
        path.with_name(path.name + ".txt").write_text(text)
        return path


def repeats(target: str, path: Path) -> str:
    """The command."""
    return f"python -m tests.fuzzing --target {target} --repeat {path}"


def written(folder: Path, target: str) -> list[Path]:
    """The inputs of all findings that lie there."""
    return sorted(path for path in (folder / target).glob("*") if path.suffix != ".txt")
