"""A disk for each member that can be full, or be lost: a tmpfs of its own where mounting is
allowed, else a folder, which can only be lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

_SIZE: Final = "4g"
"""Nobody gets near it: pages are taken as they are used."""


class Disk:
    """Below ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.can_be_full: bool = _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "disk", path)

    def fill(self) -> None:
        """Not one page more than is used now."""
        used = int(_output("df", "--output=used", "-B1", self.path).split()[-1])
        _run("mount", "-o", f"remount,size={max(used, 1)}", self.path)

    def make_room(self) -> None:
        _run("mount", "-o", f"remount,size={_SIZE}", self.path)

    def lose(self) -> None:
        """Everything on it is gone. Its owner must not run."""
        for each in self.path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def close(self, *, keep: bool = False) -> None:
        """``keep``: what is on it stays, in a folder beside it where it has to."""
        if self.can_be_full:
            if keep:
                _run("cp", "-a", "--sparse=always", self.path, f"{self.path}-kept")
            _run("umount", "-l", self.path)


def _run(*command: str | Path) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
