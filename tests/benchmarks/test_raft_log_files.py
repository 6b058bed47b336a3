"""Where a member's log ends, read from files that were made by hand (dledger.md §4)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.raft_group.log_files import NOTHING, End, LogFiles

FILE = 1000


def entry(position: int, index: int, term: int = 1, body: bytes = b"x" * 52) -> bytes:
    head = struct.pack(">iiqqqiiii", 1, 48 + len(body), index, term, position, 0, 0, 0, len(body))
    return head + body


def blank(room: int) -> bytes:
    return struct.pack(">ii", -1, room) + bytes(room - 8)


def write(folder: Path, position: int, *pieces: bytes) -> None:
    path = folder / f"{position:020d}"
    path.write_bytes(b"".join(pieces).ljust(FILE, b"\0"))


NINE = [entry(100 * number, number) for number in range(9)]


def test_nothing(tmp_path: Path) -> None:
    assert LogFiles(tmp_path / "data").end() == NOTHING
    write(tmp_path, 0)
    assert LogFiles(tmp_path).end() == NOTHING


def test_within_a_file(tmp_path: Path) -> None:
    write(tmp_path, 0, *NINE[:3])
    assert LogFiles(tmp_path).end() == End(300, 2, 1)
    write(tmp_path, 0, *NINE[:5])
    assert LogFiles(tmp_path).end(End(300, 2, 1)) == End(500, 4, 1)


def test_over_the_end_of_a_file(tmp_path: Path) -> None:
    write(tmp_path, 0, *NINE, blank(100))
    write(tmp_path, 1000)
    assert LogFiles(tmp_path).end() == End(900, 8, 1)
    write(tmp_path, 1000, entry(1000, 9, 2), entry(1100, 10, 2))
    assert LogFiles(tmp_path).end() == End(1200, 10, 2)
    assert LogFiles(tmp_path).end(End(900, 8, 1)) == End(1200, 10, 2)


def test_a_log_that_begins_later(tmp_path: Path) -> None:
    write(tmp_path, 1000, entry(1200, 30), entry(1300, 31))
    assert LogFiles(tmp_path).end() == NOTHING
    write(tmp_path, 2000, entry(2000, 30), entry(2100, 31))
    (tmp_path / f"{1000:020d}").unlink()
    assert LogFiles(tmp_path).end() == End(2200, 31, 1)


@pytest.mark.parametrize(
    "bad", [entry(301, 3), entry(300, 4), entry(300, 3, 0), bytes(100), b"\xff" * 100]
)
def test_what_is_no_entry_ends_it(tmp_path: Path, bad: bytes) -> None:
    write(tmp_path, 0, *NINE[:3], bad, entry(400, 4))
    assert LogFiles(tmp_path).end() == End(300, 2, 1)


def test_bytes_for_the_comparison(tmp_path: Path) -> None:
    write(tmp_path, 0, *NINE, blank(100))
    write(tmp_path, 1000, entry(1000, 9))
    files = LogFiles(tmp_path)
    log = files.log(files.end())
    assert (log.begin, log.end) == (0, 1100)
    assert log.read(850, 200) == NINE[8][50:] + blank(100) + entry(1000, 9)[:50]
