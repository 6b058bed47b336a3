"""What is behind damage is found again, and nothing behind the mapping is looked at."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.log.log_scanner import LogScanner

from ..world import open_store, put_ok

FILE_SIZE = 16 << 10


class Watched(mmap.mmap):
    """Searches to the very end of a mapping end in a segmentation fault on Python 3.11.0 to 3.11.3,
    now and then."""

    def find(self, sub: Any, start: int = 0, end: int | None = None) -> int:
        assert end is not None
        assert end < len(self)
        return super().find(sub, start, end)


@pytest.mark.parametrize("damaged", [0, 1, -2, -1])
def test_behind_damage_in_a_full_file(tmp_path: Path, damaged: int) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=FILE_SIZE)
    try:
        first = put_ok(store, body=b"x" * 1000)
        offsets = [first.phy_offset]
        while store._log.files.files[-1].start < 2 * FILE_SIZE:
            offsets.append(put_ok(store, body=b"x" * 1000).phy_offset)
        for file in store._log.files.files:
            with file.path.open("r+b") as opened:
                file._map = Watched(opened.fileno(), file.size)
        in_first = [offset for offset in offsets if offset < FILE_SIZE]
        hit = in_first[damaged]
        store._log.files.files[0].map[hit : hit + 100] = bytes(100)
        found = [record.phy_offset for record in LogScanner(store._log).scan(0)]
    finally:
        store.close()
    assert found == [offset for offset in offsets if offset != hit]


@pytest.mark.parametrize("behind", [0, 3])
def test_what_is_damaged_right_in_front_of_where_to_stop(tmp_path: Path, behind: int) -> None:
    """A record ends there: nothing intact need follow to show that the log goes on so far."""
    store = open_store(tmp_path)
    try:
        offsets = [put_ok(store, body=b"x" * 100).phy_offset for _ in range(5 + behind)]
        stop = offsets[5] if behind else store.max_phy_offset
        store._log.files.files[0].map[offsets[4] : offsets[4] + 50] = bytes(50)
        scanner = LogScanner(store._log)
        found = [at for records in scanner.pieces(0, stop) for at in records.phy_offsets]
    finally:
        store.close()
    assert (found, scanner.damaged, scanner.end) == (offsets[:4], [(offsets[4], stop)], stop)
