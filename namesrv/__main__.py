"""``mqnamesrv``, ``python -m aiorocketmq.namesrv``."""

from __future__ import annotations

from ..remoting import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import sys

from ..remoting import launch
from .daemon import NAMESRV


def main() -> None:
    sys.exit(launch.main(NAMESRV))


if __name__ == "__main__":
    main()
