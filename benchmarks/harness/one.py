"""One benchmark in a process of its own: ``python -m benchmarks.harness.one NAME TARGET OPTIONS``.

So what hangs or dies is one benchmark and not the run. Rows are in the file TARGET as soon as they
are there.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Never

import msgspec

from ..catalog import catalog, load
from .rows import Options, Rows


def _end(_number: int, _frame: FrameType | None) -> Never:
    """Leave through all ``with`` blocks, so that no daemon stays behind."""
    raise SystemExit(3)


def main() -> None:
    name, target = sys.argv[1], Path(sys.argv[2])
    values = msgspec.json.decode(sys.argv[3])
    folder = values.pop("directory")
    values["only"] = tuple(values["only"])
    options = Options(**values, directory=Path(folder) if folder else None)
    signal.signal(signal.SIGTERM, _end)
    rows = Rows(name, options, target)
    with rows.attempt(name):
        load(catalog()[name])(rows)


if __name__ == "__main__":
    main()
