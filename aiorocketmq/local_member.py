"""A member of a group of ``LocalCluster`` as a process: the broker, which stops when whoever
started it is gone. ``python -m aiorocketmq.local_member -c FILE``, with a pipe as standard input
that its owner holds open.
"""

from __future__ import annotations

from .daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import os
import signal
import threading

from .broker.__main__ import main as broker

_STANDARD_INPUT = 0


def _stop_when_alone() -> None:
    while os.read(_STANDARD_INPUT, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    threading.Thread(target=_stop_when_alone, name="owner", daemon=True).start()
    broker()


if __name__ == "__main__":
    main()
