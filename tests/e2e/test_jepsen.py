"""``make jepsen`` in small: one broker that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .cluster import PATIENCE_S


def test_nothing_that_must_not_be_is_seen(tmp_path: Path) -> None:
    options = ["--minutes=0.05", "--shape=one", "--only=master killed", f"--out={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.jepsen", *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "jepsen-one.json").read_text())
    assert found["sends"]["acknowledged"] > 50
    assert found["stored"] == found["handed_out"] >= found["sends"]["acknowledged"]
    assert {kind for kind, *_ in found["happened"]} == {"master killed"}
    assert not any(found["violations"].values())
    assert "jepsen-one.svg" in (tmp_path / "jepsen-one.md").read_text()
