"""The numbers of queues of which the log has nothing left: told to other replicas, and taken from
them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.disk import Mode
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import OutOfSpaceError
from aiorocketmq.store.queues.fillers import MOST_LOST
from tests.store.dledger.world import commit_all, follower, leader, open_member, raft_of, replicate
from tests.store.replica.replica_world import RECORD_FIELDS
from tests.store.world import bodies_of, crash, open_store, put_ok

ON_EDGE = 20
"""A number whose unit is the first of a file."""


def expire_first(store: MessageStore) -> None:
    """The first file of the log, and its messages with it."""
    asyncio.run(store.sync())
    store._log.files.drop_first().delete()
    if store.raft is not None:
        store.raft.log.first_file_gone()
    asyncio.run(store.cleaning._follow_log())


def with_expired(store: MessageStore, old: int = 3) -> MessageStore:
    """``old`` messages of Old are gone, and some of T."""
    for _ in range(old):
        put_ok(store, "Old")
    put_ok(store, body=bytes(3000))
    put_ok(store, body=bytes(3000))
    put_ok(store, body=bytes(3000))
    if store.raft is not None:
        commit_all(store)
    expire_first(store)
    return store


def ends(store: MessageStore, phy_offset: int) -> dict[str, dict[int, int]]:
    return at_once(store.gone_queues.ends_before(phy_offset))


def test_what_the_log_has_nothing_of_is_told(tmp_path: Path) -> None:
    store = with_expired(open_store(tmp_path))
    assert store.min_phy_offset == 8192
    assert ends(store, store.min_phy_offset) == {"Old": {0: 3}}
    assert ends(store, 0) == {}
    assert ends(store, store.max_phy_offset) == {"Old": {0: 3}, "T": {0: 3}}
    store.close()


@pytest.mark.parametrize("end", [7, ON_EDGE, 23])
@pytest.mark.parametrize("stop", [MessageStore.close, crash])
def test_it_is_still_known_after_a_stop(
    tmp_path: Path, end: int, stop: Callable[[MessageStore], None]
) -> None:
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert store.gone_queues.take("Old", 1, end)
    assert (store.min_offset("Old", 1), store.max_offset("Old", 1)) == (end, end)
    assert store.queue_ids("Old") == [1]
    stop(store)
    store = open_store(tmp_path)
    assert (store.min_offset("Old", 1), store.max_offset("Old", 1)) == (end, end)
    assert ends(store, 0) == {"Old": {1: end}}, "it is told further"
    assert put_ok(store, "Old", 1).queue_offset == end
    stop(store)
    store = open_store(tmp_path)
    assert (store.min_offset("Old", 1), store.max_offset("Old", 1)) == (end, end + 1)
    assert bodies_of(store, "Old", 1) == [b"body"]
    store.close()


class FullFor(PosixDisk):
    """No space for the queues of one topic, to make their files or to reserve some of them."""

    def __init__(self, topic: str, call: str) -> None:
        self._where = f"/consumequeue/{topic}/"
        self.call = call

    def open(self, path: str | Path, mode: Mode) -> int:
        self._use(mode, str(path))
        return super().open(path, mode)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        self._use("allocate", os.readlink(f"/proc/self/fd/{fd}"))
        super().allocate(fd, offset, length)

    def _use(self, call: str, path: str) -> None:
        if call == self.call and self._where in path:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stop", [MessageStore.close, crash])
@pytest.mark.parametrize("call", ["make", "allocate"])
@pytest.mark.parametrize("end", [7, ON_EDGE, 23])
def test_what_had_no_space_is_taken_when_it_is_told_again(
    tmp_path: Path, end: int, call: str, stop: Callable[[MessageStore], None]
) -> None:
    disk = FullFor("Old", call)
    store = open_store(tmp_path, disk, broker_role=BrokerRole.SLAVE)
    with pytest.raises(OutOfSpaceError):
        store.gone_queues.take("Old", 1, end)
    disk.call = ""
    store.gone_queues.take("Old", 1, end)
    assert not store.gone_queues.take("Old", 1, end)
    stop(store)
    store = open_store(tmp_path)
    assert (store.min_offset("Old", 1), store.max_offset("Old", 1)) == (end, end)
    store.close()


def test_a_message_whose_queue_begins_late_and_has_no_space_is_not_left_out(tmp_path: Path) -> None:
    """Nor is what is behind it: the slave tries again when there is space."""
    master = open_store(tmp_path / "m")
    for _ in range(17):
        put_ok(master, "Old")
    for _ in range(3):
        put_ok(master, body=bytes(3000))
    put_ok(master, "B", body=b"another queue")
    put_ok(master, "Old", body=b"new")
    disk = FullFor("Old", "allocate")
    slave = open_store(tmp_path / "s", disk, broker_role=BrokerRole.SLAVE)
    data = master.read(8192, master.max_phy_offset - 8192)
    assert data is not None
    with pytest.raises(OutOfSpaceError):
        slave.replica.append(8192, data)
    assert [slave.max_offset(topic, 0) for topic in ("B", "T")] == [0, 2], "taken back"
    disk.call = ""
    slave.replica.append(8192, data)
    for _ in range(2):
        assert (slave.min_offset("Old", 0), slave.max_offset("Old", 0)) == (17, 18)
        assert bodies_of(slave, "Old", 0) == [b"new"]
        assert bodies_of(slave, "B", 0) == [b"another queue"]
        slave.close()
        slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    slave.close()
    master.close()


def test_a_mended_message_whose_queue_begins_late_and_has_no_space_is_tried_again(
    tmp_path: Path,
) -> None:
    """However much lies between the file's begin and its number."""
    number, per_file = 4 * MOST_LOST - 1, 2 * MOST_LOST
    disk = FullFor("Old", "allocate")
    size: dict[str, Any] = {"mapped_file_size_consume_queue": 20 * per_file}
    slave = open_store(tmp_path, disk, broker_role=BrokerRole.SLAVE, **size)
    new = NewRecord("Old", 0, b"b", b"", **RECORD_FIELDS, queue_offset=number, phy_offset=0)
    record = encode_record(new)
    slave.replica.append(0, record[:4] + bytes(len(record) - 4))  # in no queue
    with pytest.raises(OutOfSpaceError):
        slave.replica.fill_in(record, 0)
    disk.call = ""
    slave.replica.fill_in(record, 0)
    assert (slave.min_offset("Old", 0), slave.max_offset("Old", 0)) == (number, number + 1)
    slave.close()


def test_what_a_store_has_messages_of_it_knows_better(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    assert not store.gone_queues.take("T", 0, 5)
    assert bodies_of(store) == [b"body"]
    assert store.gone_queues.take("Old", 0, 5)
    assert not store.gone_queues.take("Old", 0, 5)
    assert not store.gone_queues.take("Old", 0, 4), "nothing goes back"
    assert store.gone_queues.take("Old", 0, 6)
    assert not store.gone_queues.take("a/b", 0, 6)
    assert not store.gone_queues.take("Old", -1, 6)
    assert not store.gone_queues.take("New", 0, 0)
    assert not store.gone_queues.take("New", 0, 1 << 60)
    assert store.topics() == {"T", "Old"}
    store.close()


@pytest.mark.parametrize("known", [3, 4, 2, ON_EDGE])
def test_the_log_knows_better(tmp_path: Path, known: int) -> None:
    """Whatever is told: the message that comes has the number 3."""
    master = with_expired(open_store(tmp_path / "m"))
    put_ok(master, "Old", body=b"new")
    slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    slave.gone_queues.take("Old", 0, known)
    data = master.read(8192, master.max_phy_offset - 8192)
    assert data is not None
    slave.replica.append(8192, data)
    assert (slave.min_offset("Old", 0), slave.max_offset("Old", 0)) == (3, 4)
    assert bodies_of(slave, "Old", 0) == [b"new"]
    for each in (master, slave):
        each.close()


def test_a_member_whose_log_began_anew_leads_with_the_numbers_that_it_was_told(
    tmp_path: Path,
) -> None:
    first = with_expired(leader(tmp_path / "a"))
    second = follower(tmp_path / "b")
    assert raft_of(second).files.knows_numbers
    replicate(first, second)
    assert second.min_phy_offset == 8192
    assert not raft_of(second).files.knows_numbers
    assert second.gone_queues.wanted
    crash(second)
    second = open_member(tmp_path / "b", "n1")
    assert not raft_of(second).files.knows_numbers, "nobody has told"
    for topic, queues in ends(first, second.min_phy_offset).items():
        for queue_id, end in queues.items():
            assert second.gone_queues.take(topic, queue_id, end)
    raft_of(second).files.save_numbers(lambda: True)
    second.close()
    second = open_member(tmp_path / "b", "n1")
    assert raft_of(second).files.knows_numbers
    raft_of(second).files.save_votes(True)
    assert raft_of(second).files.knows_numbers, "what else is noted leaves that alone"
    raft_of(second).lead(2)
    assert put_ok(second, "Old").queue_offset == 3
    commit_all(second)
    assert (second.min_offset("Old", 0), second.max_offset("Old", 0)) == (3, 4)
    for each in (first, second):
        each.close()


def test_only_who_follows_takes_numbers(tmp_path: Path) -> None:
    member = follower(tmp_path)
    assert member.gone_queues.may_take()
    raft_of(member).lead(2)
    assert not member.gone_queues.may_take()
    member.close()
