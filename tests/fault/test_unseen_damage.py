"""Damage that a start does not see: pulls say so where they meet it, ``mqstore verify`` finds it,
``rebuild`` mends it.

These are the rows of a table in docs/store-format.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.queues import queue_survey
from aiorocketmq.tools.mqstore.rebuild import RebuildSettings, rebuild
from aiorocketmq.tools.mqstore.verify import verify
from tests.stored import decode_messages

from ..store.world import NOW, messages_of, open_store, put_ok
from .damage import overwrite

COUNT = 900
ITEMS_AT = 40 + 10 * 4
QUEUE = f"consumequeue/T/0/{0:020d}"


class Case(NamedTuple):
    damage: Callable[[Path], object]
    left_out: range
    """By pulls, with a line."""
    not_found: range
    """By their keys."""


CASES = {
    "a smaller size": Case(
        lambda root: overwrite(root / QUEUE, 20 * 100 + 8, (60).to_bytes(4, "big")),
        range(100, 101),
        range(0),
    ),
    "a tags code": Case(
        lambda root: overwrite(root / QUEUE, 20 * 100 + 12, bytes(7) + b"x"), range(0), range(0)
    ),
    "zeros in the middle": Case(
        lambda root: overwrite(root / QUEUE, 20 * 100, bytes(20 * 200)), range(100, 300), range(0)
    ),
    "zeros in the index": Case(
        lambda root: overwrite(next((root / "index").iterdir()), ITEMS_AT + 20 * 101, bytes(20)),
        range(0),
        range(100, 101),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_start_does_not_see(
    tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_survey, "_WHOLE_BYTES", 0)  # this is a long queue behind many others
    damage, left_out, not_found = CASES[case]
    sizes: dict[str, Any] = {
        "mapped_file_size_consume_queue": 20 * 1000,
        "mapped_file_size_commit_log": 1 << 20,
        "max_index_num": 1000,
    }
    store = open_store(tmp_path, **sizes)
    for number in range(COUNT):
        put_ok(
            store,
            body=b"%d" % number,
            store_timestamp=NOW + number,
            properties={"TAGS": "a", "KEYS": f"k{number}"},
        )
    store.close()
    damage(tmp_path)
    for mended in (False, True):
        caplog.clear()
        store = open_store(tmp_path, **sizes)
        assert store.recovery is not None
        assert not store.recovery.repaired
        found = {message.queue_offset for message in messages_of(store)}
        assert found == set(range(COUNT)).difference(() if mended else left_out)
        assert ("is damaged and left out" in caplog.text) == bool(left_out and not mended)
        for number in (99, 100, 301):
            records = at_once(store.query.steps("T", f"k{number}", 2, 0, 1 << 60)).records
            assert len(decode_messages(records)) == (mended or number not in not_found)
        assert put_ok(store, queue_id=1).queue_offset == mended, "numbers go on"
        store.close()
        told: list[str] = []
        if not mended:
            assert verify(tmp_path, told.append, slots=10).findings
            rebuild(tmp_path, RebuildSettings(slots=10, items=1000, queue_file_size=20 * 1000))
        assert verify(tmp_path, told.append, slots=10).findings == 0, told
