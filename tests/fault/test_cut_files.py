"""Full files of the commit log that somebody cuts, or makes one hole, while a store reads them.

What lies behind the end of a file is a SIGBUS to who touches it through a mapping.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError

from ..store.world import Filter, bodies_of, open_store, put_ok
from .own_process import work_done

COUNT = 60


def filled(root: Path) -> tuple[MessageStore, Path]:
    """A store with some files, which were all read, and the first of them."""
    store = open_store(root)
    for number in range(COUNT):
        put_ok(store, body=b"%d" % number * 200)
    assert len(bodies_of(store)) == COUNT
    assert store.view(0, 1000) is not None
    return store, root / "commitlog" / ("0" * 20)


def cut(root: Path) -> None:
    store, first = filled(root)
    os.truncate(first, 0)
    reads: dict[str, Callable[[], object]] = {
        "a pull": lambda: store.get("T", 0, 0),
        "a pull with a filter": lambda: store.get("T", 0, 0, record_filter=Filter()),
        "what slaves are sent": lambda: store.view(0, 1000),
        "raw bytes": lambda: store.read(100, 100),
        "a message": lambda: store.message_by_offset(0),
        "a time": store.entries.log_begins_at,
    }
    for name, read in reads.items():
        problem = f"{name} was answered"
        try:
            read()
        except StoreFileError as error:
            problem = str(error)
        assert problem.startswith(f"{first}: has become shorter than its 8192 bytes"), (
            name,
            problem,
        )
    later = store.get("T", 0, COUNT - 1)
    assert later.count == 1
    store.close()


def zeroed(root: Path) -> None:
    store, first = filled(root)
    os.truncate(first, 0)
    os.truncate(first, 8192)
    left = bodies_of(store)
    assert store.damage.found == COUNT - len(left) > 0
    assert left[-1] == b"%d" % (COUNT - 1) * 200
    store.close()


def test_what_a_file_has_lost_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    work_done(cut, tmp_path)


def test_zeros_in_the_place_of_records_are_damage(tmp_path: Path) -> None:
    work_done(zeroed, tmp_path)
