"""What was measured on: a run on another machine, kernel or interpreter is another run."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path

from aiorocketmq.remoting.protocol.leaves import KIND

_PACKAGES = ("uvloop", "msgspec")


def describe() -> dict[str, str]:
    """By name, for people."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": interpreter(),
        "leaves": f"leaves {KIND}",
        "packages": ", ".join(found for name in _PACKAGES if (found := _version(name))),
        "compiler of generator and floor": _compiler(),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def interpreter() -> str:
    """Version and how it was built; profile-guided ones are about 15 % faster."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    how = "profile-guided" if "--enable-optimizations" in arguments else "not profile-guided"
    return (
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"{platform.python_compiler()}, {how}"
    )


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiler() -> str:
    try:
        done = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return "none: generator and floor are in Python"
    return done.stdout.partition("\n")[0]
