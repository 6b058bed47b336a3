"""The numbers of queues of which the log has nothing left: told to other replicas, and taken from
them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from tests.store.dledger.world import commit_all, follower, leader, open_member, raft_of, replicate
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
