"""One line per event, whatever a peer puts into it."""

from __future__ import annotations

import logging
import sys

from aiorocketmq.remoting.logs import LineFormatter


def record(message: str, *args: object, exc_info: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if exc_info else None
    made = logging.LogRecord("aiorocketmq.namesrv.daemon", logging.INFO, "", 0, message, args, info)
    made.created, made.msecs = 1_700_000_000.123, 123.0
    return made


def test_a_line() -> None:
    stamp, level, name, *rest = LineFormatter().format(record("ready port=%d", 9876)).split()
    assert stamp[10:23].startswith("T")
    assert ".123" in stamp
    assert (level, name, rest) == ("INFO", "namesrv.daemon", ["ready", "port=9876"])


def test_a_peer_cannot_write_a_line_of_its_own() -> None:
    line = LineFormatter().format(record("topic=%s", "x\n2026 ERROR\x1b[31m ü"))
    assert "\n" not in line
    assert line.endswith(r"topic=x\n2026 ERROR\x1b[31m ü")


def test_a_bug_brings_its_traceback() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        assert "Traceback" in LineFormatter().format(record("failed", exc_info=True))
