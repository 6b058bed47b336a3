"""How what a slave gets comes into its index: all of it, in large steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.index.index_file import IndexFile

from ..world import open_store, put_ok
from .replica_world import LARGE, index_of, open_both, replicate


def test_messages_of_all_kinds_get_into_the_index_that_the_master_has(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path, **LARGE)
    for number in range(900):
        key = (
            f"{number:030d}ü"
            if 700 <= number < 720
            else f"{number:032d}"
            if number < 800
            else f"{number:07d}"
        )
        properties = {"UNIQ_KEY": key, "TAGS": "ab"[number % 2]}
        put_ok(
            master,
            "TU"[number % 3 // 2],
            number % 4,
            b"%d" % number,
            properties=properties,
            store_timestamp=1000 + number,
        )
        if number in {299, 309, 599, 605, 899}:  # few of them come one by one
            replicate(master, slave, 100_000)
    assert slave.replica.waiting > 800
    for store in (master, slave):
        store.close()
    assert index_of(tmp_path / "master") == index_of(tmp_path / "slave") != []


def test_what_came_in_pieces_gets_into_the_index_in_large_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 20, "max_index_num": 5000}
    master, slave = open_both(tmp_path, **large)
    for number in range(2000):
        properties = {"UNIQ_KEY": f"{number:032d}", "TAGS": "a"}
        put_ok(master, "T", number % 4, b"%d" % number, properties=properties, store_timestamp=1000)
    replicate(master, slave, 20_000)
    steps: list[int] = []
    put_items = IndexFile.put
    with monkeypatch.context() as patch:
        patch.setattr(
            IndexFile,
            "put",
            lambda self, *rows: steps.append(len(rows[0])) or put_items(self, *rows),
        )
        slave._indexing.build_all()
    assert sum(steps) == 2000
    assert len(steps) <= 6, steps
    assert not slave.replica.waiting
    for store in (master, slave):
        store.close()
    assert index_of(tmp_path / "master") == index_of(tmp_path / "slave") != []


def test_the_first_step_after_a_sync_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its items is a page fault."""
    store = open_store(tmp_path, max_index_num=5000)
    steps: list[int] = []
    put_items = IndexFile.put
    monkeypatch.setattr(
        IndexFile, "put", lambda self, *rows: steps.append(len(rows[0])) or put_items(self, *rows)
    )
    for _ in range(2):
        for number in range(800):
            put_ok(store, "T", 0, b"", properties={"UNIQ_KEY": f"{number:032d}"})
        store._indexing.build_all()
        store._index.sync(store._index.sync_work())
    assert sum(steps) == 1600
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :]
    assert steps[0] <= 128 < max(steps)
    store.close()
