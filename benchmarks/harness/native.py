"""The C parts (``benchmarks/c``), built by the machine's compiler on first use and kept in the
user's cache."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).resolve().parent.parent / "c"
NO_NATIVE: Final = "AIOROCKETMQ_BENCH_NO_GCC"
"""An environment variable: go without the C parts, as on a machine without a compiler."""


def player() -> Path | None:
    """The load generator as a shared library; ``None`` without a compiler."""
    return _built("player", "-shared", "-fPIC")


def floor() -> Path | None:
    """The floor server; ``None`` without a compiler (or zlib's header)."""
    return _built("floor", libraries=("-lz",))


def clock() -> Path | None:
    """A library to preload that moves the time of day; ``None`` without a compiler."""
    return _built("clock", "-shared", "-fPIC", libraries=("-ldl",))


@functools.cache
def _built(name: str, *options: str, libraries: tuple[str, ...] = ()) -> Path | None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or os.environ.get(NO_NATIVE):
        return None
    source = _SOURCES / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + repr(options).encode()).hexdigest()[:16]
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiorocketmq-benchmarks"
    )
    target = folder / f"{name}-{digest}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = target.with_name(f"{target.name}.{os.getpid()}")
        command = [compiler, "-O2", "-o", str(made), *options, str(source), *libraries]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
            return None
        made.replace(target)
    return target
