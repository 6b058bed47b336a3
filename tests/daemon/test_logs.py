"""One line per event, whatever a peer puts into it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.daemon.logs import (
    LINES_PER_SECOND,
    MAX_LINE,
    FloodFilter,
    JsonFormatter,
    LineFormatter,
    LogFile,
    set_up_logging,
)

from ..kept_logging import logging_as_before


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


# --- JSON
# --------------------------------------------------------------------------------------------------


def as_json(message: str, *args: object) -> dict[str, object]:
    line = JsonFormatter().format(record(message, *args))
    assert "\n" not in line
    entry: dict[str, object] = json.loads(line)
    assert entry.pop("level") == "INFO"
    assert entry.pop("logger") == "namesrv.daemon"
    assert str(entry.pop("time"))[10:23].startswith("T")
    return entry


def test_pairs_become_fields() -> None:
    found = as_json("ready port=%d home=%s took=%.3f slave=%s", 9876, "/x", 0.5, None)
    assert found == {"event": "ready", "port": 9876, "home": "/x", "took": 0.5, "slave": None}


def test_what_a_peer_sends_is_a_value_and_no_field() -> None:
    assert as_json("topic=%s", 'x level=ERROR"}\n{"level": "ERROR') == {
        "event": "",
        "topic": 'x level=ERROR"}\n{"level": "ERROR',
    }


def test_a_sentence_with_other_places_is_one_event() -> None:
    assert as_json("%s of %d done count=%d", "a", 2, 3) == {"event": "a of 2 done count=3"}
    assert as_json("100%% done count=%d", 3) == {"event": "100% done count=3"}
    assert as_json("done") == {"event": "done"}


def test_a_pair_does_not_hide_what_every_line_has() -> None:
    assert as_json("x level=%s time=%d", "high", 3) == {"event": "x", "level_": "high", "time_": 3}


def test_a_bug_brings_its_traceback_as_a_field() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        entry = json.loads(JsonFormatter().format(record("failed", exc_info=True)))
    assert "ZeroDivisionError" in entry["traceback"]


# --- both
# --------------------------------------------------------------------------------------------------

UNPRINTABLE = "".join(c for c in map(chr, (*range(0x2100), 0xD800, 0xE0001)) if not c.isprintable())
"""What a terminal may take for a command, or that hides or turns around what stands beside it."""


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_nothing_that_a_terminal_obeys_comes_out_of_a_log(formatter: logging.Formatter) -> None:
    for text in (formatter.format(record("topic=%s", UNPRINTABLE + "ü")), *failures(formatter)):
        assert text.replace("\n", "").isprintable()
        assert "ü" in text


def failures(formatter: logging.Formatter) -> Iterator[str]:
    try:
        raise ValueError(UNPRINTABLE + "\n2026 ERROR made up ü")
    except ValueError:
        yield formatter.format(record("failed", exc_info=True))


def test_an_error_cannot_write_a_line_of_its_own() -> None:
    [text] = failures(LineFormatter())
    first, *others = text.split("\n")
    assert first.endswith("failed")
    assert all(line.startswith(" ") for line in others)


def test_what_is_escaped_can_be_read_again() -> None:
    assert as_json("topic=%s", UNPRINTABLE) == {"event": "", "topic": UNPRINTABLE}
    [text] = failures(JsonFormatter())
    assert "\n" not in text
    assert UNPRINTABLE in json.loads(text)["traceback"]


# --- files
# --------------------------------------------------------------------------------------------------


def test_a_log_file_is_rotated(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], logging.getLogger("aiorocketmq").level
    path = tmp_path / "broker.log"
    try:
        set_up_logging("INFO", form="json", file=LogFile(str(path), max_bytes=1000, backups=2))
        for number in range(15):
            logging.getLogger("aiorocketmq.test").info("line number=%d %s", number, "x" * 300)
        root.handlers[0].close()
    finally:
        root.handlers[:] = before
        logging.getLogger("aiorocketmq").setLevel(level)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "broker.log",
        "broker.log.1",
        "broker.log.2",
    ]
    assert all(
        json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()
    )
    assert "number=14" in path.read_text()


def test_a_log_file_that_cannot_be_rotated_goes_on(tmp_path: Path) -> None:
    """As in a folder of somebody else's: no line is lost, and it is tried again."""
    path, in_the_way = tmp_path / "broker.log", tmp_path / "broker.log.1"
    in_the_way.mkdir()
    with logging_as_before():
        set_up_logging("INFO", file=LogFile(str(path), max_bytes=1000, backups=1))
        for number in range(LINES_PER_SECOND):
            logging.getLogger("aiorocketmq.broker").info("line %d", number)
        lines = path.read_text().splitlines()
        assert [line for line in lines if " line " in line][-1].endswith(
            f"line {LINES_PER_SECOND - 1}"
        )
        assert len([line for line in lines if " line " in line]) == LINES_PER_SECOND
        assert sum("cannot be rotated" in line for line in lines) in (1, 2)
        in_the_way.rmdir()
        for number in range(LINES_PER_SECOND):
            logging.getLogger("aiorocketmq.broker").info("later line %d", number)
        logging.getLogger().handlers[0].close()
    assert in_the_way.is_file()
