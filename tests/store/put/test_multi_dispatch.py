"""A message in several queues: put, found, recovered."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.dispatched import dispatched_numbers
from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.message.topic_names import SEND_FORBIDDEN_TOPICS
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.disk import Mode
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.put.multi_dispatch import MAX_TARGETS
from aiorocketmq.store.queues.consume_queue import ConsumeQueue

from ..replica.replica_world import open_slave, replicate
from ..world import bodies_of, crash, messages_of, open_store, put, put_ok

ON: dict[str, Any] = {"enable_multi_dispatch": True, "enable_lmq": True}


def named(*names: str, **more: str) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": ",".join(names), **more}


def test_a_message_is_stored_once_and_found_in_every_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON)
    put_ok(store, "B", 1, b"alone")
    put_ok(store, "T", 1, b"one", properties=named("%LMQ%a", "B", TAGS="red"))
    put_ok(store, "T", 1, b"two", properties=named("%LMQ%a"))
    assert bodies_of(store, "T", 1) == [b"one", b"two"]
    assert bodies_of(store, "%LMQ%a", 0) == [b"one", b"two"]
    assert bodies_of(store, "B", 1) == [b"alone", b"one"]
    first, second = messages_of(store, "%LMQ%a", 0)
    assert (first.topic, first.properties["INNER_MULTI_QUEUE_OFFSET"]) == ("T", "0,1")
    assert second.properties["INNER_MULTI_QUEUE_OFFSET"] == "1"
    assert first.commit_log_offset == messages_of(store, "T", 1)[0].commit_log_offset
    entries = store.entries.some("%LMQ%a", 0, 0, 9)
    assert entries is not None
    assert [code for _, _, code in entries] == [tags_code("red"), 0]
    store.close()


def test_switched_off_nothing_is_dispatched(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, properties=named("%LMQ%a"))
    assert store.topics() == {"T"}
    assert "INNER_MULTI_QUEUE_OFFSET" not in messages_of(store)[0].properties
    store.close()


def test_without_light_queues_a_light_name_is_a_topic_like_others(tmp_path: Path) -> None:
    store = open_store(tmp_path, enable_multi_dispatch=True)
    put_ok(store, "T", 3, properties=named("%LMQ%a"))
    assert store.max_offset("%LMQ%a", 3) == 1
    store.close()


def test_names_twice_and_ones_own(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON)
    put_ok(store, "T", 0, b"x", properties=named("B", "B", "T"))
    assert (store.max_offset("T", 0), store.max_offset("B", 0)) == (1, 1)
    assert messages_of(store)[0].properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0,0"
    store.close()


def test_numbers_that_a_producer_made_up_do_not_count(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON)
    put_ok(store, properties=named("B", INNER_MULTI_QUEUE_OFFSET="77"))
    assert messages_of(store)[0].properties["INNER_MULTI_QUEUE_OFFSET"] == "0"
    store.close()


def test_numbers_that_a_producer_of_a_batch_made_up_are_not_believed_later(tmp_path: Path) -> None:
    """Else who may send to one topic could send to all."""
    store = open_store(tmp_path, **ON)
    put_ok(store, "B", 0, b"its own")
    pairs = b"INNER_MULTI_DISPATCH\x01B\x02INNER_MULTI_QUEUE_OFFSET\x011"
    batch = encode_batch([BatchItem(0, b"one", pairs), BatchItem(0, pairs, b"a\x01b")])
    fields: dict[str, Any] = {
        "born_host": bytes(8),
        "born_timestamp": 1,
        "store_timestamp": 1_700_000_000_000,
    }
    assert (
        store.put_batch(PutBatch(topic="T", queue_id=0, items=memoryview(batch), **fields)).status
        is PutStatus.PUT_OK
    )
    items = [BatchItem(0, b"two", b"")]
    assert (
        store.put_batch(
            PutBatch(topic="T", queue_id=0, items=items, properties=pairs, **fields)
        ).status
        is PutStatus.PUT_OK
    )
    assert (
        store.put_batch(
            PutBatch(
                topic="T", queue_id=0, items=encode_batch(items), properties=b"c\x01d", **fields
            )
        ).status
        is PutStatus.PUT_OK
    )
    crash(store)
    store = open_store(tmp_path, **ON)
    assert bodies_of(store, "B", 0) == [b"its own"]
    assert bodies_of(store, "T", 0) == [b"one", pairs, b"two", b"two"]
    first, second, third, fourth = messages_of(store, "T", 0)
    assert (
        first.properties["INNER_MULTI_DISPATCH"] == third.properties["INNER_MULTI_DISPATCH"] == "B"
    )
    assert (second.properties["a"], fourth.properties["c"]) == ("b", "d")
    store.close()


@pytest.mark.parametrize("topic", ["%RETRY%g", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_what_is_not_in_its_own_topic_yet_is_not_dispatched(tmp_path: Path, topic: str) -> None:
    store = open_store(tmp_path, **ON)
    put_ok(store, topic, properties=named("B"))
    assert store.max_offset("B", 0) == 0
    store.close()


@pytest.mark.parametrize(
    "names", [["a b"], [""], ["x" * 128], [f"t{n}" for n in range(MAX_TARGETS + 1)]]
)
def test_what_no_queue_can_be_named(tmp_path: Path, names: list[str]) -> None:
    store = open_store(tmp_path, **ON)
    result = put(store, properties=b"INNER_MULTI_DISPATCH\x01" + (",".join(names) or ",").encode())
    assert result.status is PutStatus.MESSAGE_ILLEGAL
    assert store.topics() == set()
    store.close()


@pytest.mark.parametrize("topic", sorted(SEND_FORBIDDEN_TOPICS))
def test_what_nobody_may_send_to_is_not_named_either(tmp_path: Path, topic: str) -> None:
    """A unit in the queue of ops would decide somebody's transaction at the next start."""
    store = open_store(tmp_path, **ON)
    for result in (
        put(store, properties=named("B", topic)),
        store.later_refusal("T", b"INNER_MULTI_DISPATCH\x01" + topic.encode()),
    ):
        assert result is not None
        assert result.status is PutStatus.MESSAGE_ILLEGAL
        assert topic in result.remark
    assert store.topics() == set()
    store.close()


def test_light_queues_have_a_limit(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON, max_lmq_consume_queue_num=2)
    put_ok(store, properties=named("%LMQ%a", "%LMQ%b", "B"))
    result = put(store, properties=named("%LMQ%a", "%LMQ%c"))
    assert result.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert result.remark.startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")
    put_ok(store, properties=named("%LMQ%a", "C"))
    store.close()


def test_so_have_others_that_are_made_because_they_are_named(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON, max_lmq_consume_queue_num=2)
    put_ok(store, "T", properties=named("B", "C", "%LMQ%a"))
    result = put(store, "T", properties=named("B", "D"))
    assert result.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert store.topics() == {"T", "B", "C", "%LMQ%a"}
    put_ok(store, "D")
    put_ok(store, "T", properties=named("B", "D", "%LMQ%b"))
    store.close()


def test_who_waits_at_a_named_queue_is_told(tmp_path: Path) -> None:
    store = open_store(tmp_path, **ON)
    told: list[tuple[str, int, int]] = []
    store.arrivals.listeners.append(
        lambda topic, queue_id, end, *_: told.append((topic, queue_id, end))
    )
    store.arrivals.watch("%LMQ%a", 0)
    put_ok(store, properties=named("%LMQ%a"))
    store.arrivals.notify()
    assert told == [("%LMQ%a", 0, 1)]
    store.close()


QUEUES = (("T", 0), ("B", 0), ("%LMQ%a", 0))


def contents(store: MessageStore) -> list[list[bytes]]:
    return [bodies_of(store, *queue) for queue in QUEUES]


@pytest.mark.parametrize("lost", ["nothing", "first files", "named queue", "all queues"])
def test_recovery_gives_every_queue_its_messages_again(tmp_path: Path, lost: str) -> None:
    """Several files of log and queues; after a crash, whatever of the queues is left."""
    store = open_store(tmp_path, **ON)
    for number in range(100):
        names = ["%LMQ%a"] * (number % 2 == 0) + ["B"] * (number % 3 == 0)
        put_ok(store, body=b"%d" % number, properties=named(*names) if names else {})
        if number % 7 == 0:
            put_ok(store, "B", body=b"own %d" % number)
    expected = contents(store)
    crash(store)
    if lost == "first files":
        for queue in QUEUES:
            (tmp_path.joinpath("consumequeue", *map(str, queue)) / ("0" * 20)).unlink()
    elif lost != "nothing":
        shutil.rmtree(
            tmp_path / {"named queue": "consumequeue/%LMQ%a", "all queues": "consumequeue"}[lost]
        )
    store = open_store(tmp_path, **ON)
    assert contents(store) == expected
    result = put_ok(store, body=b"next", properties=named("%LMQ%a", "B"))
    assert result.status is PutStatus.PUT_OK
    assert [bodies[-1] for bodies in contents(store)] == [b"next"] * 3
    store.close()
    store = open_store(tmp_path, **ON)
    assert [bodies[:-1] for bodies in contents(store)] == expected
    assert store.recovery is not None
    assert store.recovery.records == 0  # the queues agree with the log, so nothing is read again
    store.close()


def test_properties_that_do_not_go_together_name_nothing() -> None:
    assert dispatched_numbers(b"A\x01b") == []
    assert dispatched_numbers(b"INNER_MULTI_DISPATCH\x01a,b\x02INNER_MULTI_QUEUE_OFFSET\x011") == []
    assert dispatched_numbers(b"INNER_MULTI_DISPATCH\x01a\x02INNER_MULTI_QUEUE_OFFSET\x01x") == []
    assert dispatched_numbers(
        b"INNER_MULTI_DISPATCH\x01a,b\x02INNER_MULTI_QUEUE_OFFSET\x011,2"
    ) == [("a", 1), ("b", 2)]


def test_a_named_queue_that_cannot_be_written_refuses_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer, no exception: the delivery of delayed messages would end with it, and the broker
    too."""
    store = open_store(tmp_path, **ON)

    def no_room(queue: ConsumeQueue, units: int = 1) -> None:
        raise StoreFileError(tmp_path, "Too many open files")

    monkeypatch.setattr(ConsumeQueue, "make_room", no_room)
    result = put(store, properties=named("B"))
    assert (result.status, "Too many open files" in result.remark) == (
        PutStatus.CREATE_MAPEDFILE_FAILED,
        True,
    )
    assert "Too many open files" in (store.no_room or ""), "the health of the broker says so"
    assert any("messages are refused, they have no place" in line for line in caplog.messages)
    store.close()


def test_a_store_that_takes_no_message_makes_no_queue_for_it(tmp_path: Path) -> None:
    """A disk that is nearly full would be filled by what is refused."""
    store = open_store(tmp_path, **ON)
    store._refusals.from_now_on("the disk is full")
    for number in range(3):
        assert put(store, properties=named(f"%LMQ%{number}")).remark == "the disk is full"
    assert not (tmp_path / "consumequeue").exists()
    store.close()


@pytest.mark.parametrize("lost", ["nothing", "consumequeue/%LMQ%a", "consumequeue"])
@pytest.mark.parametrize("synced", ["before", "after", "never"])
@pytest.mark.parametrize("before", [2, 25])
def test_a_named_queue_that_was_deleted_and_made_anew_has_its_new_messages_only(
    tmp_path: Path, before: int, synced: str, lost: str
) -> None:
    store = open_store(tmp_path, **ON)
    for number in range(before):
        put_ok(store, body=b"old %d" % number, properties=named("%LMQ%a", "B"))
    if synced == "before":
        asyncio.run(store.sync())
    for topic in ("%LMQ%a", "B"):
        at_once(store.delete_topic_in_slices(topic))
    for number in range(5):
        put_ok(store, body=b"new %d" % number, properties=named("%LMQ%a", "B"))
    if synced == "after":
        asyncio.run(store.sync())
    expected = contents(store)
    assert expected[1] == expected[2] == [b"new %d" % number for number in range(5)]
    crash(store)
    if lost != "nothing":
        shutil.rmtree(tmp_path / lost)
    store = open_store(tmp_path, **ON)
    assert contents(store) == expected
    put_ok(store, body=b"next", properties=named("%LMQ%a", "B"))
    assert [bodies[-1] for bodies in contents(store)] == [b"next"] * 3
    assert messages_of(store, "B", 0)[-1].properties["INNER_MULTI_QUEUE_OFFSET"] == "5,5"
    store.close()


class Short(PosixDisk):
    """No descriptor is left for the first of the named queues, once the message's own has one."""

    is_short = False

    def open(self, path: str | Path, mode: Mode) -> int:
        if self.is_short and "/%LMQ%a/" in str(path):
            raise OSError(errno.EMFILE, "Too many open files")
        self.is_short |= "/T/" in str(path)
        return super().open(path, mode)


def test_more_queues_than_may_be_mapped_all_have_the_message(tmp_path: Path) -> None:
    """Room that was made for one is not taken away for another one."""
    names, disk = ("%LMQ%a", "%LMQ%b", "%LMQ%c"), Short()
    store = open_store(tmp_path / "m", disk, max_mapped_queue_files=3, **ON)
    for body in (b"one", b"two"):
        put_ok(store, body=body, properties=named(*names))
        disk.is_short = False
    assert store._queues.mappings.count == 3, "that holds for a put only"
    slave = open_slave(tmp_path / "s", **ON)
    replicate(store, slave)
    crash(store)
    store = open_store(tmp_path / "m", **ON)
    for each in (store, slave):
        for topic in ("T", *names):
            assert bodies_of(each, topic) == [b"one", b"two"]
        each.close()
