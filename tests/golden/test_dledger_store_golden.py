"""Logs of the original's DLedger members: opened here they have every entry and stay as they are,
made again from their entries they have the same bytes, and they go on as the original went on."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import SystemDisk
from aiorocketmq.store.log.commit_log import CommitLog
from aiorocketmq.store.log.entry_index import EntryIndex
from aiorocketmq.store.log.entry_log import DledgerLog
from aiorocketmq.store.log.entry_recovery import EntryRecovery, recover_entries

from ..golden_files import golden_lines, unpack_golden
from ..sim import told_of

FILE_SIZE = 65536
STORES = {
    "group3-n0": (0, 437, 5),
    "group3-n1": (0, 437, 5),
    "group3-n2": (0, 437, 5),
    "dirty-n1": (0, 348, 2),
    "mixed-n0": (0, None, 0),
    "begin-n2": (30, 61, 1),
}
"""First entry, last entry and its term."""


@functools.cache
def dump(name: str) -> list[dict[str, Any]]:
    """What the original's own decoder read."""
    return list(golden_lines(f"dledger/store-{name}.dump"))


def entries_in(name: str) -> list[dict[str, Any]]:
    return [line for line in dump(name) if line["type"] == "entry"]


class Opened:
    """A log of a folder ``dledger-<id>``, perhaps with an older one."""

    def __init__(self, folder: Path, older: Path | None = None) -> None:
        disk = SystemDisk()
        if older is None:
            files = MappedFileQueue(folder / "data", FILE_SIZE, disk)
        else:
            files = MappedFileQueue.on_paths([folder / "data"], [older], FILE_SIZE, disk)
        files.load()
        divided = next((f.start for f in files.files if f.path.parent.name == "data"), files.end)
        self.folder = folder
        self.commit_log = CommitLog(files, 48, divided if older else 0)
        self.index = EntryIndex(folder / "index", disk)
        self.index.load()
        self.log = DledgerLog(self.commit_log, self.index, told_of())
        self.found: EntryRecovery = recover_entries(self.commit_log, self.index)
        self.log.open(self.found)

    def all(self) -> list[Entry]:
        found: list[Entry] = []
        while (index := self.log.begin_index + len(found)) <= self.log.end_index:
            found += self.log.entries(index, 1 << 20)
        return found

    def close(self) -> None:
        self.commit_log.close()
        self.index.close()


def unpacked(name: str, tmp_path: Path) -> Path:
    unpack_golden(f"dledger/store-{name}", tmp_path)
    (folder,) = (tmp_path / f"store-{name}").glob("dledger-*")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Of both folders of files; of an index, sparse and 160 MiB long, the first MiB."""
    found = {}
    for part in ("data", "index"):
        for path in sorted((folder / part).iterdir()):
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = file.read(1 << 20)
    return found


def opened(folder: Path) -> Opened:
    older = folder.parent / "commitlog"
    return Opened(folder, older if older.is_dir() else None)


@pytest.mark.parametrize("name", STORES)
def test_opened(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    before = contents(folder)
    store = opened(folder)
    entries, expected = store.all(), entries_in(name)
    begin, end, term = STORES[name]
    assert (store.log.begin_index, store.log.end_term) == (begin, term)
    assert store.log.end_index == (expected[-1]["index"] if end is None else end)
    assert (store.found.damaged, store.found.problem) == (False, "")
    assert [(e.index, e.term, e.pos, e.size, e.magic) for e in entries] == [
        (line["index"], line["term"], line["pos"], line["size"], line["magic"]) for line in expected
    ]
    for line in expected:
        assert store.log.term_of(line["index"]) == line["term"]
        assert store.log.end_of(line["index"]) == line["pos"] + line["size"]
    store.close()
    assert contents(folder) == before


@pytest.mark.parametrize("name", STORES)
def test_made_again(name: str, tmp_path: Path) -> None:
    """A follower that gets every entry, some at a time, has the original's bytes: blanks, index
    and all."""
    folder = unpacked(name, tmp_path)
    theirs = opened(folder)
    entries = theirs.all()
    older = folder.parent / "commitlog"
    ours = Opened(tmp_path / "ours", older if older.is_dir() else None)
    ours.log.begin_with(entries[0])
    at, step = 1, 1
    while at < len(entries):
        ours.log.append(entries[at : at + step])
        at, step = at + step, step % 13 + 1
    assert ours.all() == entries
    assert all(ours.log.matches(entry) for entry in entries)
    theirs.close()
    ours.close()
    assert contents(tmp_path / "ours") == contents(folder)


def test_the_dirty_tail_is_taken_back(tmp_path: Path) -> None:
    """As the new leader did: TRUNCATE, then its entries. The log ends up as that of the others."""
    dirty = opened(unpacked("dirty-n1", tmp_path))
    leader = opened(unpacked("group3-n0", tmp_path))
    entries = leader.all()
    assert dirty.log.matches(entries[343])
    assert not dirty.log.matches(entries[344])
    dirty.log.truncate(343)
    assert (dirty.log.end_index, dirty.log.end_term) == (343, entries[343].term)
    dirty.log.append(entries[344:400])
    dirty.log.append(entries[400:])
    dirty.log.note()
    leader.close()
    dirty.close()
    assert contents(dirty.folder) == contents(leader.folder)


def test_an_index_that_was_lost(tmp_path: Path) -> None:
    folder = unpacked("group3-n0", tmp_path)
    before = contents(folder)
    os.unlink(folder / "index" / f"{0:020d}")
    store = opened(folder)
    store.close()
    assert contents(folder) == before


def test_behind_the_older_log(tmp_path: Path) -> None:
    """Entry 0 begins where the older files end."""
    store = opened(unpacked("mixed-n0", tmp_path))
    first = store.log.entries(0, 1)[0]
    assert (first.pos, first.term, store.log.end_of(-1)) == (131072, 0, 131072)
    assert store.commit_log.min_phy_offset == 0
    assert (store.commit_log.head_at(65536), store.commit_log.head_at(131072)) == (0, 48)
    store.close()
