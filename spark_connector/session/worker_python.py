"""A Python for Spark's worker processes that starts in a third of the time.

Spark puts its own ``pyspark.zip`` and a large jar in front of the ``PYTHONPATH`` of every worker.
Python keeps no compiled modules of what is in a zip: each new worker (one per streaming query, some
for planning, one per task slot) compiles two hundred modules of pyspark anew, and reads the
directories of these files twenty times over. The same pyspark lies in ``site-packages``, compiled.
So the interpreter that Spark is told to start is a script which leaves those entries out, and
begins the daemon of ``worker_daemon.py`` where Spark asks for ``pyspark.daemon``.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import sysconfig
from pathlib import Path
from typing import Final

__all__ = ["quick_python"]

_DAEMON: Final = f"{__package__}.worker_daemon"
_SCRIPT: Final = """\
#!/bin/sh
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
        *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    set -- -m {daemon} "$@"
fi
PYTHONPATH=$kept exec {python} "$@"
"""


def quick_python(folder: Path) -> str:
    """The program for ``PYSPARK_PYTHON``: a script in ``folder``, which must stay as long as Spark
    runs.

    It is this interpreter itself where that would not do: pyspark is not installed beside it, there
    is no shell, or nothing in ``folder`` may be run.
    """
    if os.name != "posix" or not _is_installed("pyspark") or not _is_installed("py4j"):
        return sys.executable
    script = folder / "python"
    script.write_text(
        _SCRIPT.format(python=shlex.quote(sys.executable), daemon=_DAEMON), encoding="utf-8"
    )
    script.chmod(0o755)
    return str(script) if os.access(script, os.X_OK) else sys.executable


def _is_installed(package: str) -> bool:
    """Whether a fresh interpreter finds it without Spark's help."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return False
    return any(
        Path(spec.origin).is_relative_to(sysconfig.get_path(name))
        for name in ("purelib", "platlib")
    )
