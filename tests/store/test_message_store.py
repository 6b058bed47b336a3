"""Writing: messages, batches, who is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.batch import BatchError, BatchItem, encode_batch
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.put import PutBatch, PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus
from tests.stored import EntryKind, StoreDirectory

from .world import (
    BORN_HOST,
    NOW,
    STORE_HOST,
    bodies_of,
    crash,
    messages_of,
    open_store,
    put,
    put_ok,
)

RECORD = 91 + 1  # of an empty message in topic "T"


def put_batch(store: MessageStore, batch: Any, properties: bytes = b"", **fields: Any) -> PutResult:
    settings: dict[str, Any] = {
        "born_host": BORN_HOST,
        "born_timestamp": NOW,
        "store_timestamp": NOW,
    } | fields
    return store.put_batch(
        PutBatch(topic="T", queue_id=0, items=batch, properties=properties, **settings)
    )


def test_a_message_is_stored_with_all_its_fields(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, "Other")
    result = store.put_message(
        PutMessage(
            "T",
            3,
            memoryview(b"hello"),
            b"TAGS\x01a\x02UNIQ_KEY\x01U",
            born_host=BORN_HOST,
            born_timestamp=11,
            store_timestamp=22,
            tags_code=tags_code("a"),
            flag=-7,
            sys_flag=0x301,
            reconsume_times=2,
            prepared_transaction_offset=99,
        )
    )
    assert result.status is PutStatus.PUT_OK
    assert result.queue_offset == 0
    record = store.message_by_offset(result.phy_offset)
    assert record is not None
    assert len(record) == result.size == store.max_phy_offset - result.phy_offset
    head = decode_record(record, check_crc=True).head
    assert (head.queue_id, head.flag, head.queue_offset, head.phy_offset) == (
        3,
        -7,
        0,
        result.phy_offset,
    )
    assert (head.sys_flag, head.born_timestamp, head.born_host) == (0x301, 11, BORN_HOST)
    assert (head.store_timestamp, head.store_host, head.reconsume_times) == (22, STORE_HOST, 2)
    assert head.prepared_transaction_offset == 99
    assert store.message_id(result.phy_offset) == decode_record(record).offset_msg_id
    store.close()


@pytest.mark.parametrize("born", ["10.1.2.3", "::2"])
@pytest.mark.parametrize("stored", ["10.1.2.4", "::3"])
def test_ipv6_hosts(tmp_path: Path, born: str, stored: str) -> None:
    store = open_store(tmp_path, store_host=pack_host(stored, 10911))
    put_ok(store, born_host=pack_host(born, 1))
    put_batch(store, [BatchItem(0, b"item", b"")], born_host=pack_host(born, 1))
    for message in messages_of(store):
        assert message.sys_flag == (0x10 if ":" in born else 0) | (0x20 if ":" in stored else 0)
        assert born in message.born_host
        assert stored in message.store_host
    store.close()
    store = open_store(tmp_path, store_host=pack_host(stored, 10911))
    assert len(messages_of(store)) == 2
    store.close()


def test_queues_count_on_their_own(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [
        put_ok(store, topic, queue).queue_offset
        for topic in "AB"
        for queue in (0, 1)
        for _ in range(3)
    ]
    assert offsets == [0, 1, 2] * 4
    assert store.max_offset("A", 1) == 3
    assert store.max_offset("A", 2) == store.max_offset("C", 0) == store.min_offset("C", 0) == 0
    assert store.queue_ids("A") == [0, 1]
    assert store.topics() == {"A", "B"}
    store.close()


@pytest.mark.parametrize("sys_flag", [0x4, 0xC])
def test_prepared_and_rolled_back_messages_get_no_number(tmp_path: Path, sys_flag: int) -> None:
    store = open_store(tmp_path)
    put_ok(store, body=b"1")
    result = put_ok(store, body=b"half", sys_flag=sys_flag)
    assert result.queue_offset == 0
    assert put_ok(store, body=b"2", sys_flag=0x8).queue_offset == 1
    assert bodies_of(store) == [b"1", b"2"]
    record = store.message_by_offset(result.phy_offset)
    assert record is not None
    assert decode_record(record).body == b"half"
    crash(store)
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"1", b"2"]
    assert put_ok(store, body=b"3").queue_offset == 2
    store.close()


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_message_size=1000)
    cases = [
        (put(store, body=bytes(1001)), PutStatus.MESSAGE_ILLEGAL, "maxMessageSize is 1000"),
        (put(store, properties=bytes(32768)), PutStatus.PROPERTIES_SIZE_EXCEEDED, "32767"),
        (put(store, "x" * 128), PutStatus.MESSAGE_ILLEGAL, "127"),
        (put(store, "é" * 64), PutStatus.MESSAGE_ILLEGAL, "127 bytes"),
        (put(store, ""), PutStatus.MESSAGE_ILLEGAL, "folder"),
        (put(store, "../../etc"), PutStatus.MESSAGE_ILLEGAL, "folder"),
        (put(store, ".."), PutStatus.MESSAGE_ILLEGAL, "folder"),
        (put(store, queue_id=-1), PutStatus.MESSAGE_ILLEGAL, "-1"),
        (
            put(store, properties=bytes(8192)),
            PutStatus.MESSAGE_ILLEGAL,
            "limit is 8184",
        ),  # longer than a file
    ]
    for result, status, remark in cases:
        assert result.status is status
        assert remark in result.remark
    assert store.max_phy_offset == 0
    assert not store.topics()
    put_ok(store, "x" * 127, body=bytes(1000))
    store.config.max_message_size = 2000
    store.reconfigure()
    put_ok(store, body=bytes(2000))
    store.config.max_message_size = 9
    store.reconfigure()
    put_ok(store, body=bytes(2000))
    store.close()
    assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert put_batch(store, [BatchItem(0, b"", b"")]).status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_slave_takes_no_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert not store.writeable
    assert store.trouble is None, "that is what it is there for"
    store.close()


def test_a_file_ends_with_a_blank_and_at_least_8_bytes_stay_free(tmp_path: Path) -> None:
    for free in range(12):
        root = tmp_path / str(free)
        store = open_store(root, mapped_file_size_commit_log=1000)
        put_ok(store, body=bytes(1000 - RECORD - free)) if free >= 8 else put(
            store, body=bytes(1000 - RECORD - free)
        )
        put_ok(store, body=b"next")
        store.close()
        entries = list(StoreDirectory(root).entries())
        if free < 8:  # could not be stored at all: no file has room for it and the blank
            assert [entry.kind for entry in entries] == [EntryKind.RECORD, EntryKind.END]
        else:
            assert [(entry.kind, entry.phy_offset) for entry in entries] == [
                (EntryKind.RECORD, 0),
                (EntryKind.BLANK, 1000 - free),
                (EntryKind.RECORD, 1000),
                (EntryKind.END, 1000 + RECORD + 4),
            ]
            assert entries[1].size == free


def test_messages_fill_many_files_of_both_kinds(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    bodies = [str(number).encode() * (number % 50) for number in range(300)]
    for body in bodies:
        put_ok(store, body=body)
    assert bodies_of(store) == bodies
    store.close()
    assert len(list((tmp_path / "commitlog").iterdir())) > 5
    assert len(list((tmp_path / "consumequeue/T/0").iterdir())) == 30
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    assert put_ok(store).queue_offset == 300
    store.close()


# -- batch


def test_items_of_a_batch_become_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, body=b"before")
    batch = [
        BatchItem(1, b"a", b"TAGS\x01x"),
        BatchItem(2, b"bb", b""),
        BatchItem(3, b"", b"KEYS\x01k\x02"),
    ]
    result = put_batch(
        store, encode_batch(batch), b"WAIT\x01true", reconsume_times=4, born_timestamp=5
    )
    assert (result.status, result.queue_offset, result.count) == (PutStatus.PUT_OK, 1, 3)
    assert result.phy_offset == result.phy_offsets[0]
    assert len(result.phy_offsets) == 3
    messages = messages_of(store)[1:]
    assert [message.commit_log_offset for message in messages] == list(result.phy_offsets)
    assert [message.queue_offset for message in messages] == [1, 2, 3]
    assert [message.flag for message in messages] == [1, 2, 3]
    assert [message.body for message in messages] == [b"a", b"bb", b""]
    assert [message.raw_properties for message in messages] == [
        b"TAGS\x01x\x02WAIT\x01true",
        b"WAIT\x01true",
        b"KEYS\x01k\x02WAIT\x01true",
    ]
    assert {(message.reconsume_times, message.born_timestamp) for message in messages} == {(4, 5)}
    assert result.size == sum(message.store_size for message in messages)
    assert store.get("T", 0, 0, tags=frozenset({tags_code("x")})).count == 1
    store.close()


def test_a_batch_lies_in_one_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, body=bytes(8000 - RECORD))
    result = put_batch(
        store, [BatchItem(0, b"%d" % number, b"") for number in range(30)]
    )  # 30 units: 3 queue files
    assert result.phy_offset == 8192
    assert bodies_of(store)[1:] == [b"%d" % number for number in range(30)]
    assert put_ok(store).queue_offset == 31
    store.close()
    kinds = [entry.kind for entry in StoreDirectory(tmp_path).entries()]
    assert kinds == [EntryKind.RECORD, EntryKind.BLANK, *[EntryKind.RECORD] * 31, EntryKind.END]


def test_batches_that_cannot_be_stored(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_message_size=5000)
    ok = [BatchItem(0, b"x", b"")]
    assert put_batch(store, ok, sys_flag=4).status is PutStatus.MESSAGE_ILLEGAL
    assert (
        put_batch(store, encode_batch([BatchItem(0, bytes(5000), b"")])).status
        is PutStatus.MESSAGE_ILLEGAL
    )
    assert (
        put_batch(store, [BatchItem(0, bytes(4000), b"")] * 2 + ok).status
        is PutStatus.MESSAGE_ILLEGAL
    )  # no file is so long
    for bad in (b"", b"\0" * 10, encode_batch(ok)[:-1]):
        with pytest.raises(BatchError):
            put_batch(store, bad)
    with pytest.raises(BatchError, match="together"):
        put_batch(store, [BatchItem(0, b"", bytes(32000))], bytes(1000))
    assert store.max_phy_offset == 0
    assert put_batch(store, ok).queue_offset == 0
    store.close()


def test_what_a_batch_comes_to_is_limited_too(tmp_path: Path) -> None:
    """20 KB of many small items with long properties of the batch would make 30 MB."""
    store = open_store(tmp_path, max_message_size=100_000, mapped_file_size_commit_log=1 << 20)
    few, many = (
        encode_batch([BatchItem(0, b"", b"")] * 3),
        encode_batch([BatchItem(0, b"", b"")] * 6),
    )
    assert put_batch(store, few, bytes(32_000)).status is PutStatus.PUT_OK
    refused = put_batch(store, many, bytes(32_000))
    assert (refused.status, refused.remark) == (
        PutStatus.MESSAGE_ILLEGAL,
        "the properties of the batch take 192000 bytes in its messages, maxMessageSize is 100000",
    )
    store.close()
    store = open_store(tmp_path / "large", max_message_size=1 << 22)
    with pytest.raises(BatchError, match="65537 messages, more than 65536"):
        put_batch(store, encode_batch([BatchItem(0, b"", b"")] * 65_537))
    store.close()


def test_listeners_hear_of_watched_queues_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    heard: list[tuple[str, int, int, int, int]] = []
    pending: list[int] = []
    store.arrivals.listeners.append(lambda *arrival: heard.append(arrival))
    store.arrivals.pending = lambda: pending.append(1)
    put_ok(store)
    store.arrivals.watch("T", 0)
    store.arrivals.watch("New", 1)
    put_ok(store, "Other")
    store.arrivals.notify()
    assert (heard, pending) == ([], [])
    put_ok(store)
    put_ok(store, store_timestamp=NOW + 1)
    put_ok(store, properties={"TAGS": "a"})
    put_ok(store, "New", 1)
    put_batch(store, [BatchItem(0, b"", b"TAGS\x01b"), BatchItem(0, b"", b"TAGS\x01b")])
    assert (heard, pending) == ([], [1])
    store.arrivals.notify()
    assert heard == [
        ("T", 0, 3, 0, NOW + 1),
        ("T", 0, 4, tags_code("a"), NOW),
        ("New", 1, 1, 0, NOW),
        ("T", 0, 6, tags_code("b"), NOW),
    ]
    store.arrivals.watch("T", 0, watched=False)
    put_ok(store)
    store.arrivals.notify()
    assert len(heard) == 4
    store.arrivals.watch("../x", 0)
    assert store.topics() == {"T", "New", "Other"}
    store.close()
