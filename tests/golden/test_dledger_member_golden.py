"""Stores of members of a real group of the original, opened as ours."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.raft.ready import HardState
from tests.golden_files import golden_lines, unpack_golden
from tests.store.dledger.world import all_entries, commit_all, open_member, raft_of
from tests.store.world import crash, folder_contents, messages_of, put_ok


class Captured(NamedTuple):
    """What is known of a store."""

    name: str
    begin: int
    end: int
    committed: int
    hard_state: HardState
    old_messages: int = 0

    @property
    def self_id(self) -> str:
        return self.name[-2:]

    def unpack(self, folder: Path) -> Path:
        unpack_golden(f"dledger/store-{self.name}", folder)
        return folder / f"store-{self.name}"

    def open(self, root: Path) -> MessageStore:
        return open_member(
            root,
            self.self_id,
            mapped_file_size_commit_log=65536,
            mapped_file_size_consume_queue=2000,
            max_hash_slot_num=100,
            max_index_num=400,
        )


STORES = [
    Captured("group3-n0", 0, 437, 437, HardState(5, "n0")),
    Captured("group3-n1", 0, 437, 437, HardState(5, "n0")),
    Captured("group3-n2", 0, 437, 437, HardState(5, "n0")),
    Captured("dirty-n1", 0, 348, 343, HardState(2, "n1")),
    Captured("mixed-n0", 0, 24, 24, HardState(0, "n0"), 42),
    Captured("begin-n2", 30, 61, 61, HardState(1, "n2")),
]


@pytest.fixture(params=STORES, ids=lambda captured: captured.name)
def captured(request: pytest.FixtureRequest) -> Captured:
    found: Captured = request.param
    return found


def message_count(store: MessageStore) -> int:
    return sum(len(messages_of(store, *key)) for key in list(store._table))


def queue_files(root: Path) -> dict[str, bytes]:
    """Without empty ones: the original makes a file when it looks into a queue."""
    found = folder_contents(root / "consumequeue")
    return {name: content for name, content in found.items() if any(content)}


def test_it_is_opened_as_it_is(captured: Captured, tmp_path: Path) -> None:
    root = captured.unpack(tmp_path)
    store = captured.open(root)
    raft = raft_of(store)
    assert (raft.log.begin_index, raft.log.end_index) == (captured.begin, captured.end)
    assert raft.committed_index == captured.committed
    assert raft.files.hard_state.term == captured.hard_state.term
    assert raft.files.votes
    expected = captured.committed + 1 - captured.begin + captured.old_messages
    assert message_count(store) == expected
    store.close()


def test_every_entry_is_the_one_that_the_original_decodes(
    captured: Captured, tmp_path: Path
) -> None:
    store = captured.open(captured.unpack(tmp_path))
    dumped = [
        (line["index"], line["term"], line["pos"], line["size"])
        for line in golden_lines(f"dledger/store-{captured.name}.dump")
        if line["type"] == "entry"
    ]
    assert [(e.index, e.term, e.pos, e.size) for e in all_entries(store)] == dumped
    store.close()


def test_opening_changes_no_entry_and_no_queue(captured: Captured, tmp_path: Path) -> None:
    root = captured.unpack(tmp_path)
    entries, queues = folder_contents(root / f"dledger-{captured.self_id}/data"), queue_files(root)
    captured.open(root).close()
    assert folder_contents(root / f"dledger-{captured.self_id}/data") == entries
    assert queue_files(root) == queues


def test_queues_are_made_again_of_the_log_alone(captured: Captured, tmp_path: Path) -> None:
    root = captured.unpack(tmp_path)
    queues = queue_files(root)
    for path in sorted((root / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    store = captured.open(root)
    assert len(raft_of(store).files.hard_state) == 2
    store.close()
    assert queue_files(root) == queues


def test_it_goes_on_where_the_original_has_ended(captured: Captured, tmp_path: Path) -> None:
    root = captured.unpack(tmp_path)
    store = captured.open(root)
    raft = raft_of(store)
    term = raft.files.hard_state.term + 1
    raft.files.save_hard_state(term, captured.self_id)
    raft.lead(term)
    for number in range(300):
        put_ok(store, "TopicOurs", number % 2, bytes(300))
    commit_all(store)
    count = message_count(store)
    assert count == captured.end + 1 - captured.begin + captured.old_messages + 300
    crash(store)
    store = captured.open(root)
    assert raft_of(store).log.end_index == captured.end + 300
    commit_all(store)
    assert message_count(store) == count
    assert (raft_of(store).files.hard_state, raft_of(store).files.votes) == (
        (term, captured.self_id),
        True,
    )
    store.close()


def test_what_the_original_has_not_indexed_after_its_crash_is_not_missed(tmp_path: Path) -> None:
    """The original leaves holes in the index of all three members (§5.2); what is indexed since is
    found, and nothing is refused for the rest."""
    captured = STORES[0]
    store = captured.open(captured.unpack(tmp_path))
    raft_of(store).lead(6)
    put_ok(store, "TopicOurs", properties={"KEYS": "ourkey"})
    commit_all(store)
    assert asyncio.run(asyncio.wait_for(store.indexed(), 20))
    found = at_once(store.query.steps("TopicOurs", "ourkey", 1, 0, 1 << 62))
    assert b"ourkey" in found.records
    store.close()


def test_a_plain_store_is_closed_as_the_original_closes_it(tmp_path: Path) -> None:
    """The captured store as it was before it became a member's."""
    captured = STORES[4]
    root = captured.unpack(tmp_path)
    closed = folder_contents(root / "commitlog")
    for name in ("dledger-n0", "consumequeue", "index"):
        shutil.rmtree(root / name)
    (root / "checkpoint").unlink()
    last = root / "commitlog" / f"{65536:020d}"
    content = bytearray(last.read_bytes())
    content[94172 - 65536 :] = bytes(131072 - 94172)
    last.write_bytes(content)
    store = captured.open(root)
    raft_of(store).lead(0)
    result = put_ok(store, "TopicOurs")
    commit_all(store)
    (entry,) = all_entries(store)
    assert (entry.index, entry.term, entry.pos, result.phy_offset) == (0, 0, 131072, 131120)
    assert message_count(store) == captured.old_messages + 1
    store.close()
    assert folder_contents(root / "commitlog") == closed
