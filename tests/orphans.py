"""Nothing that the tests start outlives them, whatever becomes of them: not with SIGKILL either.

Every process of pytest puts a mark into its environment, which whatever it starts inherits, and
starts a guard: this file, as a program, which waits for the end of that process and then kills what
is left with its mark. (Linux only: elsewhere neither the environment of other processes can be
read, nor are tests' processes forked.)
"""

import contextlib
import os
import select
import signal
import sys
import time
import uuid

MARK = "AIOROCKETMQ_TESTS"
_QUIET_S = 0.5
"""So long nothing may turn up any more: what is killed may have been starting something."""


def watch() -> None:
    """From now on, for this process."""
    if sys.platform != "linux":
        return
    before = dict(os.environ)
    before.pop(
        MARK, None
    )  # guards of the processes that have started this one leave this guard alone
    mark = uuid.uuid4().hex
    os.environ[MARK] = f"{os.environ.get(MARK, '')}/{mark}"
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    os.posix_spawn(
        sys.executable, command, before, file_actions=nowhere, setsid=True
    )  # Ctrl-C is for the tests


def main(pid: int, mark: str) -> None:
    """The guard."""
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    quiet_at = time.monotonic() + _QUIET_S
    while time.monotonic() < quiet_at:
        for orphan in marked(mark):
            with contextlib.suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
                quiet_at = time.monotonic() + _QUIET_S
        time.sleep(0.05)


def marked(mark: str) -> list[int]:
    """Processes with that mark in their environment, but those that have ended (nobody has asked
    how, yet)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
                if mark.encode() in environment.read():
                    found.append(int(name))
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
