"""Files of a store that are read from outside."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from aiorocketmq.store.log.log_reader import StoredFile


@pytest.mark.parametrize("length", [2, 100, 2**30])
def test_a_read_is_short_at_the_end_and_takes_no_more_than_is_there(
    tmp_path: Path, length: int
) -> None:
    """A damaged unit of a consume queue may ask for anything."""
    path = tmp_path / ("0" * 20)
    path.write_bytes(b"0123456789")
    file = StoredFile(path, 0, 10)
    tracemalloc.start()
    try:
        assert file.read(7, length) == b"789"[:length]
        assert file.read(10, length) == file.read(11, length) == b""
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
