"""``mqnamesrv``, ``python -m aiorocketmq.namesrv``."""

from __future__ import annotations

from ..daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import gc
import sys

from ..daemon import launch
from .daemon import NAMESRV


def main() -> None:
    gc.freeze()  # what was imported stays for good: no collection has to look at it again
    sys.exit(launch.main(NAMESRV))


if __name__ == "__main__":
    main()
