"""Mappings without a descriptor: they are the file, keep nothing open, and go with their last
view."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import pytest

from aiorocketmq.store.disk.bare_mapping import bare_mapping, most_mappings

LIBC = ctypes.CDLL(None, use_errno=True)
SIZE = 100_000


def mapped(path: Path) -> memoryview:
    with path.open("r+b") as file:
        return bare_mapping(LIBC, file.fileno(), SIZE)


def is_mapped(path: Path) -> bool:
    gc.collect()
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "file"
    found.write_bytes(bytes(SIZE))
    return found


def test_it_is_the_file(path: Path) -> None:
    view = mapped(path)
    view[5:8] = b"abc"
    assert path.read_bytes()[4:9] == b"\0abc\0"
    with path.open("r+b") as file:
        file.seek(SIZE - 1)
        file.write(b"z")
    assert (len(view), bytes(view[-2:])) == (SIZE, b"\0z")


def test_it_keeps_nothing_open(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    views = [mapped(path) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(views) == 20


def test_it_goes_with_its_last_view(path: Path) -> None:
    view = mapped(path)
    part = view[10:20]
    view.release()
    assert is_mapped(path)
    assert bytes(part) == bytes(10)
    del part
    assert not is_mapped(path)


def test_what_cannot_be_mapped_is_an_error(path: Path) -> None:
    with path.open("rb") as file, pytest.raises(PermissionError):
        bare_mapping(LIBC, file.fileno(), SIZE)


def test_the_kernel_tells_how_many() -> None:
    assert most_mappings() >= 1000
