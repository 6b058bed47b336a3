"""The control groups that this process is in: how containers are limited."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

__all__ = ["MOUNT", "OWN_GROUPS", "groups", "text_of"]

OWN_GROUPS: Final = Path("/proc/self/cgroup")
MOUNT: Final = Path("/sys/fs/cgroup")


def groups(own: str, mount: Path, controller: str) -> Iterator[Path]:
    """The folders of the own cgroup and of those above it, of both versions. A container may see its own as the root, and
    still be told the path that it has outside: what is not there is harmless."""
    paths = {"": "", controller: ""}
    for line in own.splitlines():  # "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1
        controllers, _, path = line.partition(":")[2].partition(":")
        paths |= dict.fromkeys(controllers.split(","), path)
    for root, path in ((mount, paths[""]), (mount / controller, paths[controller])):
        yield from accumulate(path.strip("/").split("/"), Path.joinpath, initial=root)


def text_of(file: Path) -> str:
    """Empty when it cannot be read."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):  # a path with a zero byte is a ValueError
        return ""
