"""Daemons import this before numpy: its linear algebra (OpenBLAS), which nothing here uses, would start a thread for every
core of the machine, and they spin for a while: 50 ms of CPU at each start with two cores.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
