"""The folder of a ``LocalCluster``::

namesrv/              of the name server
store/                of one broker in its process
n0/ n1/ n2/           of a group: each a broker's (``local_brokers.py``)
broker-0/ broker-1/   of masters, likewise
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .daemon.launch import LaunchError


def make_directory(wanted: str | os.PathLike[str] | None) -> Path:
    """None: a temporary one. Raises ``LaunchError`` for one that nothing can be written to."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="aiorocketmq-"))
    directory = Path(wanted).expanduser().resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        why = error.strerror or error
        raise LaunchError(f"data_dir={directory} cannot be written to: {why}") from error
    return directory


def check_folder(directory: Path, *, raft: int, masters: int) -> None:
    """More masters than have data are what a cluster grows by; fewer would leave messages behind.
    Raises ``LaunchError`` when the data is that of another kind of cluster."""
    if (raft or masters) and (directory / "store").is_dir():
        raise LaunchError(
            f"{directory} has the data of a broker without a group: choose another folder"
        )
    if (members := _stores(directory, "n[0-9]")) and members != raft:
        raise LaunchError(
            f"{directory} has the data of a group of {members}: that is raft={members}"
        )
    if (found := _stores(directory, "broker-*")) > masters:
        raise LaunchError(
            f"{directory} has the data of {found} masters: that is masters={found}, or more"
        )


def _stores(directory: Path, pattern: str) -> int:
    return sum(1 for each in directory.glob(pattern) if (each / "store").is_dir())
