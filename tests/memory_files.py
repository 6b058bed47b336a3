"""Where the tests keep their files: in memory, where there is enough of it.

Stores sync wherever they write. On a disk each sync takes milliseconds, in which a test waits, and
files of a disk cost a third of the CPU of the tests of stores and brokers. Who wants a disk names
it: ``TMPDIR=/tmp make test``, as ``.ci/run`` does.

Memory is no disk: what tests that pass leave goes at once, what others leave (they failed, or the
whole run was killed) when the next run begins. A folder is locked by the run that it belongs to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ENOUGH: Final = 4 << 30
"""Bytes. One process of ``-n`` had at most 0.3 GiB in files at a time; Spark wants memory, too."""
_NAME: Final = "aiorocketmq-tests-"


def in_memory() -> Path | None:
    """The new folder in which this process, and all that it starts, have their temporary files;
    None where they stay where they are."""
    if "TMPDIR" in os.environ or space_in(MEMORY) < ENOUGH:
        return None
    folder = new_folder(MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


def space_in(memory: Path) -> int:
    """How many bytes a file system in memory takes without anything being swapped; 0: it is none on
    which programs can be started."""
    try:
        system = os.statvfs(memory)
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return 0
    if system.f_flag & os.ST_NOEXEC:  # as in containers
        return 0
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return min(system.f_bavail * system.f_frsize, available << 10)


def new_folder(memory: Path) -> Path:
    """One of this process; what nobody has locked any more goes."""
    for other in memory.glob(f"{_NAME}*"):
        if (lock := _locked(other)) is not None:
            shutil.rmtree(other, ignore_errors=True)
            os.close(lock)
    while True:
        folder = Path(tempfile.mkdtemp(dir=memory, prefix=_NAME))
        folder.chmod(0o1777)  # as /tmp has it: some tests go on as another user
        lock = _locked(folder)
        if lock is not None and folder.exists():  # none has taken it for a left one meanwhile
            return folder


def _locked(folder: Path) -> int | None:
    """From now on, as long as this number is open; None: another process has it."""
    import fcntl  # not everywhere

    number = None
    try:
        number = os.open(folder, os.O_RDONLY)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if number is not None:
            os.close(number)
        return None
    return number
