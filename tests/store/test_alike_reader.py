"""Pulls that are read together bring what each of them brings, or are not read at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.message_store import MessageStore

from .world import NOW, open_store, put_ok

pytest.importorskip("numpy")

QUEUES, EACH = 3, 40
PLENTY = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Messages of one size in three queues in turn, and one queue with messages of different sizes."""
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)
    for number in range(QUEUES * EACH):
        put_ok(store, "T", number % QUEUES, b"%04d" % number, store_timestamp=NOW)
    for number in range(EACH):
        put_ok(store, "T", 7, b"x" * (number % 3), store_timestamp=NOW)
    yield store
    store.close()


def together(store: MessageStore, places: list[tuple[int, int]], count: int, most_bytes: int = PLENTY) -> Any:
    assert store.get_alike is not None
    return store.get_alike("T", [queue for queue, _ in places], [offset for _, offset in places], count, most_bytes)


@pytest.mark.parametrize("count", [1, 2, 31])
def test_together_or_each(store: MessageStore, count: int) -> None:
    places = [(0, 0), (2, 3), (1, 8), (0, 0), (0, 5)]
    found = together(store, places, count)
    assert found == [store.get("T", queue, offset, count) for queue, offset in places]
    assert [result.count for result in found] == [count] * len(places)


def test_a_pull_of_nothing_brings_one(store: MessageStore) -> None:
    assert together(store, [(0, 4), (1, 4)], 0) == [store.get("T", 0, 4, 0), store.get("T", 1, 4, 0)]


@pytest.mark.parametrize(
    "unusual",
    [
        (7, 3),  # other sizes
        (8, 0),  # no such queue
        (0, EACH - 3),  # fewer are left
        (0, EACH),
        (0, EACH + 1),
        (0, -1),
    ],
)
def test_what_is_unusual_is_not_read(store: MessageStore, unusual: tuple[int, int]) -> None:
    assert together(store, [(0, 1), (1, 1)], 5) is not None
    assert together(store, [(0, 1), (1, 1), unusual], 5) is None


def test_limits(store: MessageStore) -> None:
    size = len(store.get("T", 0, 0, 5).body)
    assert together(store, [(0, 0), (1, 0)], 5, size) is not None
    assert together(store, [(0, 0), (1, 0)], 5, size - 1) is None
    assert [result.count for result in together(store, [(0, 0), (1, 0)], 33)] == [32, 32]
