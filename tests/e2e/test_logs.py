"""A daemon that logs JSON into a file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from .cluster import HOST, asynchronous, until


@asynchronous
async def test_a_daemon_logs_json_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.log"
    arguments = [
        "--listenPort=0",
        f"--bindAddress={HOST}",
        f"--logFile={path}",
        "--logFormat=json",
        "--logFileMaxBytes=100000",
    ]
    without_home = {name: value for name, value in os.environ.items() if name != "ROCKETMQ_HOME"}
    process = subprocess.Popen(
        [sys.executable, "-m", "aiorocketmq.namesrv", *arguments],
        env={**without_home, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        await until(
            lambda: path.exists() and "name server ready" in path.read_text(),
            "the log says that it is ready",
        )
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate, timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")
    events = {entry.pop("event"): entry for entry in map(json.loads, path.read_text().splitlines())}
    assert [*events][:2] == [
        "name server starting",
        "ROCKETMQ_HOME is not set, going on with",
    ], "the first line says what runs"
    assert events["name server starting"]["leaves"]
    assert isinstance(events["name server ready"]["port"], int)
    assert events["stopping"]["signal"] == "SIGTERM"
    assert "stopped" in events
