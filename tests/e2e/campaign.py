"""A campaign of ``benchmarks`` in small, run as ``make`` runs it."""

from __future__ import annotations

import re
import subprocess
import sys

from ..pages import REPOSITORY
from .cluster import PATIENCE_S


def run_campaign(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )


def figures_of(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """What it has printed, by the first word of its line. It has to have ended well."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^(\w+) +([\d,]+)", done.stdout, re.MULTILINE)
    return {name: int(figure.replace(",", "")) for name, figure in found}
