"""The figures of campaigns in a small JSON file: what was run, of all campaigns together."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Outcome


def write_figures(path: Path, outcomes: Sequence[Outcome], date: str) -> None:
    """Executions, seconds and findings of a target are added to what stands there; ``open`` are the
    findings that are not mended yet. Raises OSError."""
    rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for outcome in outcomes:
        old = rows.get(outcome.target, {})
        rows[outcome.target] = {
            "executions": old.get("executions", 0) + outcome.executions,
            "seconds": old.get("seconds", 0) + round(outcome.seconds),
            "coverage": old.get("coverage") if outcome.coverage is None else outcome.coverage,
            "findings": old.get("findings", 0) + max(0, len(outcome.findings) - old.get("open", 0)),
            "open": len(outcome.findings),
            "date": date,
            "commit": _commit(),
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
