"""One line per event, whatever a peer puts into it."""

from __future__ import annotations

import logging
import sys

from aiorocketmq.remoting.logs import LINES_PER_SECOND, MAX_LINE, FloodFilter, LineFormatter


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


def test_a_long_line_is_cut() -> None:
    line = LineFormatter().format(record("topic=%s", "x" * 100_000))
    assert MAX_LINE < len(line) < MAX_LINE + 200
    assert line.endswith("... (100006 characters)")


def test_a_flood_of_one_kind_of_line_is_left_out_and_counted() -> None:
    flood = FloodFilter()
    passed = [flood.filter(record("bad request peer=%d", n)) for n in range(LINES_PER_SECOND + 5)]
    assert passed == [True] * LINES_PER_SECOND + [False] * 5
    assert flood.filter(record("another kind"))
    later = record("bad request peer=%d", 99)
    later.created += 1
    assert flood.filter(later)
    assert LineFormatter().format(later).endswith("peer=99 (5 lines like this were left out)")
    again = record("bad request peer=%d", 100)
    again.created += 1
    assert flood.filter(again)
    assert "left out" not in LineFormatter().format(again)


def test_the_worst_news_are_never_left_out() -> None:
    flood = FloodFilter()
    news = record("the disk failed")
    news.levelno = logging.CRITICAL
    assert all(flood.filter(news) for _ in range(2 * LINES_PER_SECOND))
