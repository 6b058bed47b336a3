"""The power fails at a member of a DLedger group: what it had synced is there, what is left of the
rest is a beginning; and it knows when entries are missing that it may have acknowledged."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from aiorocketmq.store.log import entry_index
from aiorocketmq.store.message_store import MessageStore
from tests.store.dledger.world import all_entries, commit_all, open_member, raft_of
from tests.store.world import bodies_of, crash, put_ok

from .disks import LossyDisk


def power_failure(root: Path, store: MessageStore, disk: LossyDisk, chance: random.Random) -> None:
    crash(store)
    shutil.rmtree(root / "dledger-n0" / "index", ignore_errors=True)  # 160 MiB of nothing
    disk.fail(root, chance)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_synced_is_there(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_index, "CHECKSUMS_PER_FILE", 1024)
    chance, disk = random.Random(seed), LossyDisk()
    model, synced, committed, term = list[bytes](), -1, -1, 1
    store = open_member(tmp_path, disk=disk)
    for _ in range(6):
        raft = raft_of(store)
        raft.files.save_hard_state(term, "n0")
        raft.lead(term)
        for step in range(chance.randint(5, 60)):
            match chance.choice(["put"] * 6 + ["commit", "sync", "note"]):
                case "put":
                    model.append(bytes(chance.choice([0, 50, 700])) + b"%d" % step)
                    put_ok(store, body=model[-1], properties={"KEYS": f"k{step}"})
                case "commit":
                    committed = max(committed, chance.randint(-1, len(model) - 1))
                    raft.commit(committed)
                case "sync":
                    assert store.flush.save()
                    synced = len(model) - 1
                case _:
                    raft.files.save_ends(committed, len(model) - 1, synced)
        power_failure(tmp_path, store, disk, chance)
        store = open_member(tmp_path, disk=disk)
        raft = raft_of(store)
        assert synced <= raft.log.end_index < len(model)
        assert raft.files.hard_state.term >= term
        lost = raft.log.end_index < len(model) - 1
        assert raft.files.votes or lost
        raft.files.save_votes(True)
        del model[raft.log.end_index + 1 :]
        assert raft.committed_index <= committed
        committed = min(committed, len(model) - 1)
        assert bodies_of(store) == model[: raft.committed_index + 1]
        commit_all(store)
        assert bodies_of(store) == model
        assert len(all_entries(store)) == len(model)
        committed, synced, term = len(model) - 1, -1, term + 1
    store.close()
