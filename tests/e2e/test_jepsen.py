"""``make jepsen`` in small: one broker that is killed."""

from __future__ import annotations

import json
from pathlib import Path

from .campaign import run_campaign


def test_nothing_that_must_not_be_is_seen(tmp_path: Path) -> None:
    options = ["--minutes=0.05", "--shape=one", "--only=master killed", f"--out={tmp_path}"]
    done = run_campaign("jepsen", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "jepsen-one.json").read_text())
    assert found["sends"]["acknowledged"] > 50
    assert found["stored"] == found["handed_out"] >= found["sends"]["acknowledged"]
    assert {kind for kind, *_ in found["happened"]} == {"master killed"}
    assert not any(found["violations"].values())
    assert "jepsen-one.svg" in (tmp_path / "jepsen-one.md").read_text()
