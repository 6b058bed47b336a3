"""Put, get, and the life of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message import BatchError, BatchItem, encode_batch, pack_host, tags_code
from aiorocketmq.remoting.protocol.record import decode_messages, decode_record
from aiorocketmq.store.config import BrokerRole
from aiorocketmq.store.consume_queue import CQ_UNIT, FILLER_SIZE
from aiorocketmq.store.errors import StoreFileError, StoreLockedError
from aiorocketmq.store.inspect import EntryKind, StoreDirectory
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.status import GetMessageStatus, GetResult, PutResult, PutStatus

from .world import BORN_HOST, NOW, STORE_HOST, bodies_of, config_of, crash, messages_of, open_store, put, put_ok

RECORD = 91 + 1  # of an empty message in topic "T"


def put_batch(store: MessageStore, batch: Any, properties: bytes = b"", **fields: Any) -> PutResult:
    settings: dict[str, Any] = {"born_host": BORN_HOST, "born_timestamp": NOW, "store_timestamp": NOW} | fields
    return store.put_batch("T", 0, batch, properties, **settings)


# -- put


def test_a_message_is_stored_with_all_its_fields(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, "Other")
    result = store.put_message(
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
    assert result.status is PutStatus.PUT_OK
    assert result.queue_offset == 0
    record = store.message_by_offset(result.phy_offset)
    assert record is not None
    assert len(record) == result.size == store.max_phy_offset - result.phy_offset
    head = decode_record(record, check_crc=True).head
    assert (head.queue_id, head.flag, head.queue_offset, head.phy_offset) == (3, -7, 0, result.phy_offset)
    assert (head.sys_flag, head.born_timestamp, head.born_host) == (0x301, 11, BORN_HOST)
    assert (head.store_timestamp, head.store_host, head.reconsume_times) == (22, STORE_HOST, 2)
    assert head.prepared_transaction_offset == 99
    assert store.message_ids(result) == decode_record(record).offset_msg_id
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
    offsets = [put_ok(store, topic, queue).queue_offset for topic in "AB" for queue in (0, 1) for _ in range(3)]
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
        (put(store, properties=bytes(8192)), PutStatus.MESSAGE_ILLEGAL, "limit is 8184"),  # longer than a file
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
    store.close()


def test_a_file_ends_with_a_blank_and_at_least_8_bytes_stay_free(tmp_path: Path) -> None:
    for free in range(12):
        root = tmp_path / str(free)
        store = open_store(root, mapped_file_size_commit_log=1000)
        put_ok(store, body=bytes(1000 - RECORD - free)) if free >= 8 else put(store, body=bytes(1000 - RECORD - free))
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
    batch = [BatchItem(1, b"a", b"TAGS\x01x"), BatchItem(2, b"bb", b""), BatchItem(3, b"", b"KEYS\x01k\x02")]
    result = put_batch(store, encode_batch(batch), b"WAIT\x01true", reconsume_times=4, born_timestamp=5)
    assert (result.status, result.queue_offset, result.count) == (PutStatus.PUT_OK, 1, 3)
    assert result.phy_offset == result.phy_offsets[0]
    assert store.message_ids(result).count(",") == 2
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
    result = put_batch(store, [BatchItem(0, b"%d" % number, b"") for number in range(30)])  # 30 units: 3 queue files
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
    assert put_batch(store, encode_batch([BatchItem(0, bytes(5000), b"")])).status is PutStatus.MESSAGE_ILLEGAL
    assert (
        put_batch(store, [BatchItem(0, bytes(4000), b"")] * 2 + ok).status is PutStatus.MESSAGE_ILLEGAL
    )  # no file is so long
    for bad in (b"", b"\0" * 10, encode_batch(ok)[:-1]):
        with pytest.raises(BatchError):
            put_batch(store, bad)
    with pytest.raises(BatchError, match="together"):
        put_batch(store, [BatchItem(0, b"", bytes(32000))], bytes(1000))
    assert store.max_phy_offset == 0
    assert put_batch(store, ok).queue_offset == 0
    store.close()


# -- get


@pytest.fixture
def ten(tmp_path: Path) -> Any:
    """Ten messages in queue 0 of T, tagged a and b in turn; every second record belongs to another queue."""
    store = open_store(tmp_path)
    for number in range(10):
        put_ok(store, body=b"%d" % number, properties={"TAGS": "ab"[number % 2]}, store_timestamp=NOW + 100 * number)
        put_ok(store, "Other", store_timestamp=NOW + 100 * number)
    yield store
    store.close()


def found(result: GetResult) -> list[bytes]:
    return [message.body for message in decode_messages(result.body, check_crc=True)]


def test_get(ten: MessageStore) -> None:
    result = ten.get("T", 0, 2, 3)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.FOUND, 5)
    assert (result.min_offset, result.max_offset, result.count) == (0, 10, 3)
    assert found(result) == [b"2", b"3", b"4"]
    entries = ten.queue_entries("T", 0, 0, 10) or []
    assert result.behind_bytes == ten.max_phy_offset - entries[5][0]  # it stops at the message behind those it takes
    assert ten.get("T", 0, 7, 3).behind_bytes == ten.max_phy_offset - entries[9][0]  # or at the last one there is
    assert ten.get("T", 0, 0, 32, max_bytes=200).behind_bytes == ten.max_phy_offset - entries[2][0]
    assert ten.get("T", 0, 0, 2, tags=frozenset({tags_code("b")})).behind_bytes == ten.max_phy_offset - entries[4][0]
    assert not result.suggest_pulling_from_slave
    assert found(ten.get("T", 0, 8)) == [b"8", b"9"]


@pytest.mark.parametrize(
    ("topic", "offset", "status", "following"),
    [
        ("Nobody", 0, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0),
        ("Nobody", 7, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0),
        ("T", -1, GetMessageStatus.OFFSET_TOO_SMALL, 0),
        ("T", 10, GetMessageStatus.OFFSET_OVERFLOW_ONE, 10),
        ("T", 11, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 10),
    ],
)
def test_wrong_offsets(ten: MessageStore, topic: str, offset: int, status: GetMessageStatus, following: int) -> None:
    result = ten.get(topic, 0, offset)
    assert (result.status, result.next_begin_offset, result.body) == (status, following, b"")


def test_a_slave_leaves_wrong_offsets_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    store.close()
    for check, following in ((False, 9), (True, 1)):
        store = open_store(tmp_path, broker_role=BrokerRole.SLAVE, offset_check_in_slave=check)
        result = store.get("T", 0, 9)
        assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_OVERFLOW_BADLY, following)
        assert store.get("Nobody", 0, 9).next_begin_offset == (9 if not check else 0)
        store.close()


def test_tags_filter(ten: MessageStore) -> None:
    a = frozenset({tags_code("a")})
    result = ten.get("T", 0, 0, tags=a)
    assert found(result) == [b"0", b"2", b"4", b"6", b"8"]
    assert result.next_begin_offset == 10
    assert ten.get("T", 0, 0, 2, tags=a).next_begin_offset == 3
    nothing = ten.get("T", 0, 0, tags=frozenset({5}))
    assert (nothing.status, nothing.next_begin_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 10)


def test_record_filter(ten: MessageStore) -> None:
    result = ten.get("T", 0, 0, accept=lambda data, start, stop: decode_record(data[start:stop]).body in (b"1", b"2", b"7"))
    assert found(result) == [b"1", b"2", b"7"]
    assert ten.get("T", 0, 0, accept=lambda *_: False).status is GetMessageStatus.NO_MATCHED_MESSAGE


def test_delivery_times_and_extension_addresses_as_tags_code(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for code in (NOW, 5 - (1 << 63), 7):
        store.put_message("T", 0, b"", b"", born_host=BORN_HOST, born_timestamp=1, store_timestamp=1, tags_code=code)
    low = ((NOW & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    assert store.get("T", 0, 0, tags=frozenset({low})).count == 2  # an extension address matches everything
    assert store.get("T", 0, 0, tags=frozenset({8})).count == 1
    store.close()


def test_limits_of_a_pull(tmp_path: Path) -> None:
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 6000}
    store = open_store(tmp_path, **sizes)
    for _ in range(40):
        put_ok(store, body=bytes(20_000))
    assert store.get("T", 0, 0, 100).count == (256 << 10) // (20_000 + RECORD)
    assert store.get("T", 0, 0, 5).count == 5
    assert store.get("T", 0, 0, 100, max_bytes=50_000).count == 2
    assert store.get("T", 0, 0, 100, max_bytes=1).count == 1  # always the first
    for _ in range(60):
        put_ok(store, "Small")
    assert store.get("Small", 0, 0, 100).count == 32
    assert store.get("Small", 0, 0, 0).count == store.get("Small", 0, 0, -5).count == 1
    store.close()
    store = open_store(tmp_path, **sizes, access_message_in_memory_max_ratio=0)
    assert store.get("Small", 0, 0, 100).count == 8
    result = store.get("T", 0, 0, 100)
    assert (result.count, result.suggest_pulling_from_slave) == (3, True)
    store.close()


def test_neighbours_and_files_in_one_pull(tmp_path: Path) -> None:
    """Neighbouring records are copied as one slice; a pull crosses files of the log and ends at a file of the queue."""
    store = open_store(tmp_path, mapped_file_size_consume_queue=400)
    bodies = [bytes([number]) * 700 for number in range(30)]
    for body in bodies:
        put_ok(store, body=body)
    assert found(store.get("T", 0, 0, 32)) == bodies[:20]
    assert found(store.get("T", 0, 20, 32)) == bodies[20:]
    assert found(store.get("T", 0, 5, 10)) == bodies[5:15]
    store.close()


def test_units_without_a_record_are_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=2000)
    put_ok(store, body=b"first")
    queue = store._queues.get_or_create("T", 0)
    last = store.max_phy_offset - 50
    for phy_offset, size in ((last, 51), (1 << 40, 100), (-1, 100), (last, FILLER_SIZE)):
        queue.append(CQ_UNIT.pack(phy_offset, size, 0))
    result = store.get("T", 0, 0)
    assert (found(result), result.next_begin_offset) == ([b"first"], 4)  # the size of a filler unit ends a pull
    result = store.get("T", 0, 1)
    assert (result.status, result.next_begin_offset, result.body) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 5, b"")
    store.close()


def test_time(ten: MessageStore) -> None:
    expected = {NOW - 1: 0, NOW: 0, NOW + 49: 0, NOW + 50: 0, NOW + 51: 1, NOW + 500: 5, NOW + 900: 9, NOW + 5000: 9}
    assert {time: ten.offset_by_time("T", 0, time) for time in expected} == expected
    assert ten.offset_by_time("Nobody", 0, NOW) == 0
    assert ten.store_timestamp_at("T", 0, 4) == NOW + 400
    assert ten.store_timestamp_at("T", 0, 10) == ten.store_timestamp_at("Nobody", 0, 0) == -1
    assert ten.earliest_store_time("T", 0) == ten.earliest_message_time() == NOW
    assert ten.last_update_time("T", 0) == NOW + 900
    assert ten.last_update_time("Nobody", 0) == 0


def test_of_several_messages_of_one_time_the_first_is_found(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for time in (1, 5, 5, 5, 9):
        put_ok(store, store_timestamp=time)
    assert [store.offset_by_time("T", 0, time) for time in (1, 3, 4, 5, 7, 8, 9)] == [0, 0, 1, 1, 3, 4, 4]
    store.close()


def test_records_are_found_by_offset_only_where_they_begin(ten: MessageStore) -> None:
    assert ten.message_by_offset(0) is not None
    for offset in (-1, 1, 50, ten.max_phy_offset, ten.max_phy_offset - 4, 1 << 40):
        assert ten.message_by_offset(offset) is None
    assert ten.read(0, ten.max_phy_offset + 1) is None
    assert len(ten.read(0, ten.max_phy_offset) or b"") == ten.max_phy_offset


# -- arrivals


def test_listeners_hear_of_watched_queues_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    heard: list[tuple[str, int, int, int, int]] = []
    pending: list[int] = []
    store.on_arrival.append(lambda *arrival: heard.append(arrival))
    store.on_pending(lambda: pending.append(1))
    put_ok(store)
    store.watch("T", 0)
    store.watch("New", 1)
    put_ok(store, "Other")
    store.notify()
    assert (heard, pending) == ([], [])
    put_ok(store)
    put_ok(store, store_timestamp=NOW + 1)
    put_ok(store, properties={"TAGS": "a"})
    put_ok(store, "New", 1)
    put_batch(store, [BatchItem(0, b"", b"TAGS\x01b"), BatchItem(0, b"", b"TAGS\x01b")])
    assert (heard, pending) == ([], [1])
    store.notify()
    assert heard == [
        ("T", 0, 3, 0, NOW + 1),
        ("T", 0, 4, tags_code("a"), NOW),
        ("New", 1, 1, 0, NOW),
        ("T", 0, 6, tags_code("b"), NOW),
    ]
    store.watch("T", 0, watched=False)
    put_ok(store)
    store.notify()
    assert len(heard) == 4
    store.watch("../x", 0)
    assert store.topics() == {"T", "New", "Other"}
    store.close()


# -- life


def test_a_second_store_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    with pytest.raises(StoreLockedError, match="storePathRootDir"):
        open_store(tmp_path)
    put_ok(store)
    store.close()
    open_store(tmp_path).close()


def test_the_abort_file_exists_while_the_store_is_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert (tmp_path / "abort").read_bytes() == b""
    assert (tmp_path / "lock").read_bytes() == b"lock"
    store.close()
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("commitlog/00000000000000016384", bytes(8192), "00000000000000008192: is missing between"),
        ("commitlog/00000000000000008192", bytes(100), "100 bytes long but the configured file size is 8192"),
        ("commitlog/00000000000000008191", bytes(8192), "not a multiple of the file size"),
        ("commitlog/notes.txt", b"x", "not a file of the store"),
        ("commitlog/00000000000000000000/x", b"x", "not a file of the store"),
        ("consumequeue/T/0/x", b"x", "not a file of the store"),
        ("consumequeue/notes.txt", b"x", "not a folder of a topic"),
    ],
)
def test_a_directory_that_is_not_in_order_is_refused_and_left_alone(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    if not name.startswith("commitlog/00000000000000000000"):
        store = open_store(tmp_path)
        put_ok(store)
        store.close()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    before = sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock")
    with pytest.raises(StoreFileError) as caught:
        open_store(tmp_path)
    assert problem in str(caught.value)
    assert sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock") == before
    assert path.read_bytes() == content


def test_a_missing_commit_log_does_not_take_the_queues_with_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    store.close()
    (tmp_path / "commitlog").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreFileError, match="is the disk mounted"):
        open_store(tmp_path)
    (tmp_path / "commitlog").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "commitlog")
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"body"]
    store.close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFileError, match="cannot be made"):
        open_store(tmp_path / "file" / "store")


def test_another_place_for_the_commit_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    store = open_store(tmp_path / "store", store_path_commit_log=str(log))
    put_ok(store)
    store.close()
    assert [path.name for path in log.iterdir()] == ["0" * 20]
    assert not (tmp_path / "store/commitlog").exists()


def test_queue_file_sizes_are_rounded_up_to_units(tmp_path: Path) -> None:
    assert config_of(tmp_path, mapped_file_size_consume_queue=41).consume_queue_file_size == 60


def test_disk_ratios(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ratios = store.disk_ratios()
    assert set(ratios) == {"commit_log", "consume_queue"}
    assert all(0 <= ratio <= 1 and round(ratio * 100) == pytest.approx(ratio * 100) for ratio in ratios.values())
    store.close()


# -- topics that are gone


def test_a_topic_that_is_made_again_starts_at_0(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(25):
        put_ok(store, body=b"old")
    put_ok(store, "Kept")
    assert store.delete_topic("T")
    assert not store.delete_topic("T")
    assert not (tmp_path / "consumequeue/T").exists()
    assert store.get("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert put_ok(store, body=b"new").queue_offset == 0
    for end in (crash, MessageStore.close):
        end(store)
        store = open_store(tmp_path)
        assert bodies_of(store) == [b"new"]
        assert bodies_of(store, "Kept") == [b"body"]
    (tmp_path / "checkpoint").unlink()
    crash(store)
    store = open_store(tmp_path)  # everything is read again: 0..24, then 0
    assert bodies_of(store) == [b"new"]
    assert put_ok(store).queue_offset == 1
    store.close()


def test_unused_topics_are_cleaned_but_not_those_of_the_system(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for topic in ("A", "B", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "%LMQ%x"):
        put_ok(store, topic)
    assert store.clean_unused_topics({"A"}) == ["B"]
    assert store.topics() == {"A", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "%LMQ%x"}
    store.close()
