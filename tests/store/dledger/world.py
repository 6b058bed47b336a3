"""Members of a DLedger group without a group: what they are told, they believe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.store.dledger.raft_store import RaftStore
from aiorocketmq.store.message_store import MessageStore
from tests.store.world import open_store, put_ok


def open_member(root: Path, self_id: str = "n0", **changes: Any) -> MessageStore:
    """A store whose node has not been told anything yet."""
    return open_store(
        root, enable_dledger_commit_log=True, dledger_self_id=self_id, dledger_group="G", **changes
    )


def raft_of(store: MessageStore) -> RaftStore:
    assert store.raft is not None
    return store.raft


def leader(root: Path, term: int = 1, **changes: Any) -> MessageStore:
    store = open_member(root, **changes)
    raft = raft_of(store)
    raft.files.save_hard_state(term, raft.files.self_id)
    raft.lead(term)
    return store


def leader_with(root: Path, count: int) -> MessageStore:
    """Messages whose bodies are their numbers; none of them is committed."""
    store = leader(root)
    for number in range(count):
        put_ok(store, body=b"%d" % number)
    return store


def follower(root: Path, self_id: str = "n1", **changes: Any) -> MessageStore:
    store = open_member(root, self_id, **changes)
    raft_of(store).files.save_hard_state(1, None)
    raft_of(store).follow()
    return store


def all_entries(store: MessageStore) -> list[Entry]:
    raft = raft_of(store)
    found: list[Entry] = []
    first = raft.log.begin_index
    while first >= 0 and (more := raft.log.entries(first, 1 << 20)):
        found += more
        first = more[-1].index + 1
    return found


def commit_all(store: MessageStore) -> None:
    """And dispatch all of it, which takes several turns of a loop otherwise."""
    raft = raft_of(store)
    raft.commit(raft.log.end_index)
    while raft.lag:
        raft._dispatch_one()


def replicate(source: MessageStore, target: MessageStore) -> None:
    """What the target lacks is appended there, and what is committed at the source."""
    there = raft_of(target)
    entries = [entry for entry in all_entries(source) if entry.index > there.log.end_index]
    if there.log.end_index < 0 and entries:
        there.log.begin_with(entries.pop(0))
    if entries:
        there.log.append(entries)
    there.commit(raft_of(source).committed_index)
