"""A slave's store: fed with the log of a master it has the same queues, and answers the same."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.model.errors import BrokenPromiseError, OutOfSpaceError, StoreFileError
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.replica.replica_log import ReplicaQueues
from tests.stored import decode_messages

from ...fault.disks import FullDisk
from ..world import bodies_of, crash, folder_contents, messages_of, open_store, put, put_ok
from .replica_world import LARGE, V6_HOST, fill, open_both, open_slave, queues_of, replicate


@pytest.mark.parametrize("step", [700, 100_000])
@pytest.mark.parametrize("host", [None, V6_HOST])
def test_a_slave_has_the_queues_and_the_index_of_its_master(
    tmp_path: Path, step: int, host: bytes | None
) -> None:
    master = (
        open_store(tmp_path / "master")
        if host is None
        else open_store(tmp_path / "master", store_host=host)
    )
    slave = open_slave(tmp_path / "slave")
    for _ in range(3):
        fill(master, 60)
        replicate(master, slave, step)
        assert [message.body for message in messages_of(slave, "T", 1)] == bodies_of(master, "T", 1)
    last = slave.replica.last_record()
    assert last is not None
    assert last[0] + len(last[1]) == master.max_phy_offset
    assert slave.recovery is not None
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")
    assert folder_contents(tmp_path / "slave" / "commitlog") == folder_contents(
        tmp_path / "master" / "commitlog"
    )
    slave = open_slave(tmp_path / "slave")
    assert [
        len(at_once(slave.query.steps("T", f"k{number}", 10, 0, 10**15)).records) > 0
        for number in (0, 59)
    ] == [
        True,
        True,
    ]
    assert not at_once(slave.query.steps("T", "nobody", 10, 0, 10**15)).records
    slave.close()


def test_usual_messages_get_their_units_many_at_once_from_the_first_one_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one: list[object] = []
    monkeypatch.setattr(
        ReplicaQueues, "dispatch", lambda _self, request: one_by_one.append(request)
    )
    master, slave = open_both(tmp_path, **LARGE)
    for number in range(300):
        put_ok(
            master,
            "T",
            number % 4,
            b"%03d" % number,
            properties={"UNIQ_KEY": f"{number:032d}", "TAGS": "a"},
        )
    replicate(master, slave, 100_000)
    assert not one_by_one
    assert bodies_of(slave, "T", 3) == bodies_of(master, "T", 3)
    for store in (master, slave):
        store.close()


def test_when_the_log_cannot_be_written_the_queues_do_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = open_both(tmp_path)
    fill(master, 30)
    replicate(master, slave)
    known, end = bodies_of(slave, "T", 1), slave.max_phy_offset
    fill(master, 30)

    def fail(file: MappedFile, _position: int, _data: object) -> None:
        raise StoreFileError(file.path, "cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "write", fail)
        with pytest.raises(StoreFileError, match="cannot be written"):
            replicate(master, slave, 100_000)
    assert slave.max_phy_offset == end
    assert bodies_of(slave, "T", 1) == known
    replicate(master, slave)
    assert bodies_of(slave, "T", 1) == bodies_of(master, "T", 1) != known
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")


def test_a_slave_takes_no_messages(tmp_path: Path) -> None:
    slave = open_slave(tmp_path)
    assert put(slave).status is PutStatus.SERVICE_NOT_AVAILABLE
    slave.close()


def test_a_slave_that_crashes_goes_on_and_can_become_a_master(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path)
    for _ in range(4):
        fill(master, 30)
        replicate(master, slave)
        crash(slave)
        slave = open_slave(tmp_path / "slave")
    assert bodies_of(slave, "T", 2) == bodies_of(master, "T", 2)
    slave.close()
    promoted = open_store(tmp_path / "slave")
    put_ok(promoted, "T", 2, b"new")
    assert bodies_of(promoted, "T", 2) == [*bodies_of(master, "T", 2), b"new"]
    promoted.close()
    master.close()


def test_a_slave_whose_log_ends_with_a_whole_file_goes_on_with_the_next(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path)
    fill(master, 60)
    file_size = master.config.mapped_file_size_commit_log
    data = master.read(0, file_size)
    assert data is not None
    slave.replica.append(0, data)
    assert slave.max_phy_offset == file_size
    slave.close()
    slave = open_slave(tmp_path / "slave")
    assert slave.max_phy_offset == file_size
    last = slave.replica.last_record()
    assert last is not None, "it lies in front of the blank"
    assert slave.message_by_offset(last[0]) == last[1]
    replicate(master, slave)
    assert bodies_of(slave, "T", 3) == bodies_of(master, "T", 3)
    for store in (master, slave):
        store.close()


def test_the_last_record_is_known_without_a_look_at_every_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slave asks for it with every look at its master's tables, a member every second."""
    looks: list[object] = []
    unit = ConsumeQueue.unit

    def counted(queue: ConsumeQueue, offset: int) -> tuple[int, int, int] | None:
        looks.append(queue)
        return unit(queue, offset)

    master, slave = open_both(tmp_path)
    fill(master, 60)
    replicate(master, slave)
    monkeypatch.setattr(ConsumeQueue, "unit", counted)
    last = slave.replica.last_record()
    assert last is not None
    assert last[0] + len(last[1]) == master.max_phy_offset
    assert looks == []
    slave.close()
    slave = open_slave(tmp_path / "slave")
    looks.clear()
    assert slave.replica.last_record() == last
    assert looks, "a start knows nothing yet"
    looks.clear()
    assert slave.replica.last_record() == last
    assert looks == []
    for store in (master, slave):
        store.close()


def test_a_topic_that_is_deleted_and_made_again_begins_anew_at_the_slave_too(
    tmp_path: Path,
) -> None:
    master, slave = open_both(tmp_path)
    told: list[tuple[str, Collection[int]]] = []
    slave.replica.on_begun_anew.append(lambda *queues: told.append(queues))
    for number in range(5):
        put_ok(master, body=b"old %d" % number)
    replicate(master, slave)
    assert told == []
    at_once(master.delete_topic_in_slices("T"))
    put_ok(master, body=b"new")
    replicate(master, slave)
    assert bodies_of(slave) == [b"new"]
    assert told == [("T", (0,))]
    for store in (master, slave):
        store.close()


def test_messages_of_a_queue_whose_first_ones_expired_keep_their_numbers(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path)
    fill(master, 120)
    file_size = master.config.mapped_file_size_commit_log
    start = master.max_phy_offset - master.max_phy_offset % file_size
    data = master.read(start, master.max_phy_offset - start)
    assert data is not None
    told: list[str] = []
    slave.replica.on_new_queue.append(told.append)
    for topic, queue_id in {(message.topic, message.queue_id) for message in decode_messages(data)}:
        slave.arrivals.watch(topic, queue_id)  # which makes it
    slave.replica.append(start, data)
    assert set(told) == {message.topic for message in decode_messages(data)}
    assert (slave.min_phy_offset, slave.max_phy_offset) == (start, master.max_phy_offset)
    assert 0 < slave.min_offset("T", 0) < slave.max_offset("T", 0) == master.max_offset("T", 0)
    assert bodies_of(slave, "T", 0) == bodies_of(master, "T", 0)[slave.min_offset("T", 0) :]
    for store in (master, slave):
        store.close()


def test_multi_dispatch_and_extensions_are_there_too(tmp_path: Path) -> None:
    on: dict[str, Any] = {
        "enable_multi_dispatch": True,
        "enable_lmq": True,
        "enable_consume_queue_ext": True,
    }
    master, slave = open_both(tmp_path, **on)
    for number in range(40):
        put_ok(
            master,
            "T",
            1,
            b"%d" % number,
            properties={"INNER_MULTI_DISPATCH": "%LMQ%a,B", "TAGS": "red"},
        )
    replicate(master, slave)
    for queue in (("T", 1), ("%LMQ%a", 0), ("B", 1)):
        assert len(bodies_of(slave, *queue)) == 40
    assert slave.entries.ext_unit("T", 1, 39) == master.entries.ext_unit("T", 1, 39) is not None
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")


def test_who_waits_for_messages_is_told(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path)
    arrived: list[tuple[str, int, int]] = []
    slave.arrivals.listeners.append(
        lambda topic, queue_id, offset, _code, _time: arrived.append((topic, queue_id, offset))
    )
    slave.arrivals.watch("T", 1)
    fill(master, 40)
    replicate(master, slave, 100_000)
    slave.arrivals.notify()
    assert arrived == [("T", 1, 10)]
    for store in (master, slave):
        store.close()


@pytest.mark.parametrize("shift", [-1, 1, 8192])
def test_a_byte_goes_where_its_master_has_it_or_nowhere(tmp_path: Path, shift: int) -> None:
    master, slave = open_both(tmp_path)
    put_ok(master)
    replicate(master, slave)
    end = slave.max_phy_offset
    put_ok(master)
    record = master.read(end, master.max_phy_offset - end)
    assert record is not None
    with pytest.raises(BrokenPromiseError, match=f"bytes of {end + shift} cannot go to {end}"):
        slave.replica.append(end + shift, record)
    assert (slave.max_phy_offset, slave.max_offset("T", 0)) == (end, 1)
    slave.replica.append(end, record)
    for store in (master, slave):
        store.close()


def test_on_a_full_disk_nothing_has_happened_and_it_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    """Whatever of log and queues does not fit: the queues never know more than the log has."""
    master = open_store(tmp_path / "master")
    fill(master, 60)
    failures = 0
    for free in range(8192, 8192 * 3, 797):
        root = tmp_path / str(free)
        disk = FullDisk(1 << 30)
        slave = open_slave(root, disk=disk)
        disk.free = free
        try:
            replicate(master, slave)
        except OutOfSpaceError:
            failures += 1
            for queue_id in range(4):
                known = bodies_of(slave, "T", queue_id)
                assert known == bodies_of(master, "T", queue_id)[: len(known)]
                assert slave.max_offset("T", queue_id) == len(known)
            disk.free = 1 << 30
            replicate(master, slave)
        assert bodies_of(slave, "T", 1) == bodies_of(master, "T", 1)
        slave.close()
        assert queues_of(root) == queues_of(tmp_path / "master")
    assert failures > 5
    master.close()
