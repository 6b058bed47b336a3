"""``mqstore rebuild`` gives no number again that a start alone would not give either."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once

from ..store.world import open_store, put_ok
from .mqstore_world import MqStore, flip, small_store

LOG_FILE = 8192


def expired(root: Path, count: int = 12) -> Path:
    """All messages of T/0 have expired, there are others behind them; another topic was deleted,
    whose records are there still."""
    store = open_store(root)
    for _ in range(count):
        put_ok(store, body=bytes(700))
    put_ok(store, "Deleted", body=bytes(700))
    while store.max_phy_offset < 4 * LOG_FILE:
        put_ok(store, "U", body=bytes(700))
    put_ok(store, "Deleted", body=bytes(700))
    at_once(store.delete_topic_in_slices("Deleted"))
    last = store.get("T", 0, count - 1).next_begin_offset
    assert last == count
    store.close()
    begin = -(-count * 800 // LOG_FILE)
    for path in sorted((root / "commitlog").iterdir())[:begin]:
        path.unlink()
    store = open_store(root)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (count, count)
    store.close()
    return root


def of_the_original(root: Path, count: int = 12) -> Path:
    (expired(root, count) / "queueends").unlink()
    return root


def damaged(root: Path, *, original: bool) -> Path:
    """The last message of T/1 is."""
    small_store(root, 39)
    store = open_store(root, max_hash_slot_num=20, max_index_num=80)
    unit = store._table["T", 1].unit(12)
    assert unit is not None
    for _ in range(4):
        put_ok(store, body=b"behind it")
    store.close()
    flip(root / "commitlog" / f"{unit[0] // LOG_FILE * LOG_FILE:020d}", unit[0] % LOG_FILE + 100)
    if original:
        (root / "queueends").unlink()
    return root


STORES: list[Callable[[Path], Path]] = [
    lambda root: of_the_original(root),
    lambda root: of_the_original(root, 20),
    lambda root: expired(root),
    lambda root: expired(root, 20),
    lambda root: damaged(root, original=True),
    lambda root: damaged(root, original=False),
]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("to_copy", [False, True])
@pytest.mark.parametrize("made", STORES, ids=[
    "original", "original, file full", "deleted topic", "deleted topic, file full",
    "original, damaged", "damaged",
])  # fmt: skip
def test_numbers_go_on_behind_a_rebuild(
    mqstore: MqStore, tmp_path: Path, made: Callable[[Path], Path], to_copy: bool, times: int
) -> None:
    root = made(tmp_path / "store")
    expected = ends(shutil.copytree(root, tmp_path / "alone"))
    for number in range(times):
        options = ("--to", tmp_path / f"copy{number}") if to_copy else ()
        assert mqstore("rebuild", root, *options).code in (0, 1)
        root = options[1] if options else root
    found = ends(root)
    assert {key: found[key] for key in expected} == expected


def ends(root: Path) -> dict[tuple[str, int], int]:
    store = open_store(root, max_hash_slot_num=20, max_index_num=80)
    found = {(queue.topic, queue.queue_id): queue.max_offset for queue in store._queues.all()}
    store.close()
    return found
