"""Work in a process of its own, for what may end it: SIGBUS, when a page of a mapping cannot be
had.

On a tmpfs that is full that is every hole of a file, even to read it; elsewhere what lies behind
the end of a file that was cut.
"""

from __future__ import annotations

import functools
import importlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

_PAGE = 4096
Work = Callable[[Path], None]
"""A function of a module."""


def work_done(work: Work, folder: Path) -> str:
    """What a process says that calls ``work`` with a folder, and comes to its end."""
    return _said(_ended(_command(work, folder)))


def done_on_full_tmpfs(work: Work, source: Path) -> str:
    """The same as ``on_full_tmpfs``."""
    return _said(on_full_tmpfs(work, source))


def on_full_tmpfs(work: Work, source: Path) -> subprocess.CompletedProcess[str]:
    """How a process ends that calls ``work`` with a copy of a folder, on a tmpfs of its own
    (``unshare``) that is full.

    The copy has holes where the source has pages of zeros, as the tools for that make it.
    """
    if not _can_mount():
        pytest.skip("a file system of one's own needs the right to mount")
    with tempfile.TemporaryDirectory() as disk:
        command = (
            f"mount -t tmpfs -o size=16m tmpfs {disk} && exec "
            f"{shlex.join(_command(work, Path(disk), source))}"
        )
        return _ended(["unshare", "-m", "sh", "-c", command])


def done_on_tmpfs(work: Work, mib: int) -> str:
    """What a process says that calls ``work`` with an empty tmpfs of so many MiB, and comes to its
    end."""
    if not _can_mount():
        pytest.skip("a file system of one's own needs the right to mount")
    with tempfile.TemporaryDirectory() as disk:
        command = (
            f"mount -t tmpfs -o size={mib}m tmpfs {disk} && exec "
            f"{shlex.join(_command(work, Path(disk)))}"
        )
        return _said(_ended(["unshare", "-m", "sh", "-c", command]))


@functools.cache
def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as path:
        command = f"mount -t tmpfs -o size=1m tmpfs {path} && umount {path}"
        return not subprocess.run(
            ["unshare", "-m", "sh", "-c", command], capture_output=True, check=False
        ).returncode


def _command(work: Work, *paths: Path) -> list[str]:
    return [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        __name__,
        work.__module__,
        work.__name__,
        *map(str, paths),
    ]


def _ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, capture_output=True, text=True,
        check=False,
        cwd=Path(__file__).parents[2], timeout=60,
    )  # fmt: skip


def _said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, (done.returncode, done.stderr[:1500])
    return done.stdout


# -- in that process


def _copy_with_holes(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
            continue
        with path.open("rb") as old, copy.open("wb") as new:
            for at in range(0, path.stat().st_size, _PAGE):
                page = old.read(_PAGE)
                if page.count(0) != len(page):
                    new.seek(at)
                    new.write(page)
            new.truncate(path.stat().st_size)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(_PAGE)):
                pass
        except OSError:
            pass


def _main(module: str, function: str, folder: str, source: str = "") -> None:
    work: Work = getattr(importlib.import_module(module), function)
    root = Path(folder)
    if source:
        root /= "store"
        _copy_with_holes(Path(source), root)
        _fill(root.parent)
    work(root)


if __name__ == "__main__":
    _main(*sys.argv[1:])
