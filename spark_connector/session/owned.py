"""Processes that end when whoever started them is gone, with SIGKILL as well: the owner holds the
pipe open that is their standard input, and the system closes it when the owner ends.

``python -m aiorocketmq.spark_connector.session.owned MODULE ARGUMENTS`` runs a module so.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["MODULE", "end_with_owner", "owned"]

MODULE: Final = "aiorocketmq.spark_connector.session.owned"
_STANDARD_INPUT: Final = 0


@contextlib.contextmanager
def owned(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that calls ``end_with_owner``, the first of a group; ``stdout`` is all that it and
    others of the group say. Where the block is left by an error none of the group is left."""
    theirs, ours = os.pipe()  # not PIPE, which ``communicate`` closes at once
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us
        ) as process:
            try:
                yield process
            except BaseException:
                _end(process)
                raise
    finally:
        os.close(theirs)
        os.close(ours)


def _end(process: subprocess.Popen[bytes]) -> None:
    if os.name != "posix":
        return process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_with_owner(by: signal.Signals = signal.SIGTERM) -> None:
    """From now on, this process and, where it is the first of one, its group."""
    threading.Thread(target=_end_when_alone, args=(by,), name="owner", daemon=True).start()


def _end_when_alone(by: signal.Signals) -> None:
    while os.read(_STANDARD_INPUT, 1):
        pass
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), by)
    else:
        os.kill(os.getpid(), by)


def main() -> None:
    """The program."""
    end_with_owner()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
