"""Reading: pulls, filters, the search by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import GetMessageStatus, GetResult
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from tests.stored import decode_messages

from .world import BORN_HOST, NOW, Filter, open_store, put_ok

RECORD = 91 + 1  # of an empty message in topic "T"


@pytest.fixture
def ten(tmp_path: Path) -> Any:
    """Ten messages in queue 0 of T, tagged a and b in turn; every second record belongs to another
    queue."""
    store = open_store(tmp_path)
    for number in range(10):
        put_ok(
            store,
            body=b"%d" % number,
            properties={"TAGS": "ab"[number % 2]},
            store_timestamp=NOW + 100 * number,
        )
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
    entries = ten.entries.some("T", 0, 0, 10) or []
    assert (
        result.behind_bytes == ten.max_phy_offset - entries[5][0]
    )  # it stops at the message behind those it takes
    assert (
        ten.get("T", 0, 7, 3).behind_bytes == ten.max_phy_offset - entries[9][0]
    )  # or at the last one there is
    assert ten.get("T", 0, 0, 32, max_bytes=200).behind_bytes == ten.max_phy_offset - entries[2][0]
    assert (
        ten.get("T", 0, 0, 2, tags=frozenset({tags_code("b")})).behind_bytes
        == ten.max_phy_offset - entries[4][0]
    )
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
def test_wrong_offsets(
    ten: MessageStore, topic: str, offset: int, status: GetMessageStatus, following: int
) -> None:
    result = ten.get(topic, 0, offset)
    assert (result.status, result.next_begin_offset, result.body) == (status, following, b"")


def test_a_slave_leaves_wrong_offsets_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    store.close()
    for check, following in ((False, 9), (True, 1)):
        store = open_store(tmp_path, broker_role=BrokerRole.SLAVE, offset_check_in_slave=check)
        result = store.get("T", 0, 9)
        assert (result.status, result.next_begin_offset) == (
            GetMessageStatus.OFFSET_OVERFLOW_BADLY,
            following,
        )
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
    result = ten.get(
        "T",
        0,
        0,
        record_filter=Filter(
            lambda data, start, stop: decode_record(data[start:stop]).body in (b"1", b"2", b"7")
        ),
    )
    assert found(result) == [b"1", b"2", b"7"]
    assert (
        ten.get("T", 0, 0, record_filter=Filter(lambda *_: False)).status
        is GetMessageStatus.NO_MATCHED_MESSAGE
    )


def test_delivery_times_and_extension_addresses_as_tags_code(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for code in (NOW, 5 - (1 << 63), 7):
        store.put_message(
            PutMessage(
                "T",
                0,
                b"",
                b"",
                born_host=BORN_HOST,
                born_timestamp=1,
                store_timestamp=1,
                tags_code=code,
            )
        )
    low = ((NOW & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    assert (
        store.get("T", 0, 0, tags=frozenset({low})).count == 2
    )  # an extension address matches everything
    assert store.get("T", 0, 0, tags=frozenset({8})).count == 1
    store.close()


def test_limits_of_a_pull(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 20,
        "mapped_file_size_consume_queue": 6000,
    }
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
    assert store.get("Small", 0, 0, 50, max_bytes=256 << 10).count == 50
    assert store.get("Small", 0, 0, 100, max_bytes=10 * RECORD + 100).count < 32
    assert store.get("Small", 0, 0, 0).count == store.get("Small", 0, 0, -5).count == 1
    store.close()
    store = open_store(tmp_path, **sizes, access_message_in_memory_max_ratio=0)
    assert store.get("Small", 0, 0, 100).count == 8
    assert store.get("Small", 0, 0, 50, max_bytes=256 << 10).count == 50
    assert store.get("T", 0, 0, 50, max_bytes=256 << 10).count == 3
    result = store.get("T", 0, 0, 100)
    assert (result.count, result.suggest_pulling_from_slave) == (3, True)
    store.close()


def test_neighbours_and_files_in_one_pull(tmp_path: Path) -> None:
    """Neighbouring records are copied as one slice; a pull crosses files of the log and ends at a
    file of the queue."""
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
    assert (found(result), result.next_begin_offset) == (
        [b"first"],
        4,
    )  # the size of a filler unit ends a pull
    result = store.get("T", 0, 1)
    assert (result.status, result.next_begin_offset, result.body) == (
        GetMessageStatus.MESSAGE_WAS_REMOVING,
        5,
        b"",
    )
    store.close()


def test_time(ten: MessageStore) -> None:
    expected = {
        NOW - 1: 0,
        NOW: 0,
        NOW + 49: 0,
        NOW + 50: 0,
        NOW + 51: 1,
        NOW + 500: 5,
        NOW + 900: 9,
        NOW + 5000: 9,
    }
    assert {time: ten.entries.offset_by_time("T", 0, time) for time in expected} == expected
    assert ten.entries.offset_by_time("Nobody", 0, NOW) == 0
    assert ten.entries.stored_at("T", 0, 4) == NOW + 400
    assert ten.entries.stored_at("T", 0, 10) == ten.entries.stored_at("Nobody", 0, 0) == -1
    assert ten.entries.first_stored_at("T", 0) == ten.entries.log_begins_at() == NOW
    assert ten.entries.last_stored_at("T", 0) == NOW + 900
    assert ten.entries.last_stored_at("Nobody", 0) == 0


def test_of_several_messages_of_one_time_the_first_is_found(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for time in (1, 5, 5, 5, 9):
        put_ok(store, store_timestamp=time)
    assert [store.entries.offset_by_time("T", 0, time) for time in (1, 3, 4, 5, 7, 8, 9)] == [
        0,
        0,
        1,
        1,
        3,
        4,
        4,
    ]
    store.close()


@pytest.mark.parametrize("damaged", [(5,), (5, 6), tuple(range(1, 9)), tuple(range(10))])
def test_a_search_by_time_passes_over_nothing_behind_what_is_damaged(
    tmp_path: Path, damaged: tuple[int, ...]
) -> None:
    """A search that comes upon one without a time must not go on behind it."""
    store = open_store(tmp_path)
    places = [put_ok(store, store_timestamp=NOW + 100 * number) for number in range(10)]
    for number in damaged:
        file = store._log.files.files[0]
        file.put_back(places[number].phy_offset, bytes(places[number].size))
    for number in range(10):
        found = store.entries.offset_by_time("T", 0, NOW + 100 * number)
        assert found <= number
        if len(damaged) == 1:
            assert found >= number - 2
    store.close()


def test_records_are_found_by_offset_only_where_they_begin(ten: MessageStore) -> None:
    assert ten.message_by_offset(0) is not None
    for offset in (-1, 1, 50, ten.max_phy_offset, ten.max_phy_offset - 4, 1 << 40):
        assert ten.message_by_offset(offset) is None
    assert ten.read(0, ten.max_phy_offset + 1) is None
    assert len(ten.read(0, ten.max_phy_offset) or b"") == ten.max_phy_offset


@pytest.mark.parametrize("side_by_side", [True, False])
def test_much_is_a_view_for_who_can_do_with_one(tmp_path: Path, side_by_side: bool) -> None:
    store = open_store(
        tmp_path, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000
    )
    for number in range(20):
        put_ok(store, body=b"%d:" % number + bytes(8000))
        if not side_by_side:
            put_ok(store, "Other")
    for max_bytes in (None, 80_000):  # within the limits, or as many as there is room for
        copied = store.get("T", 0, 3, 12, max_bytes=max_bytes)
        viewed = store.get("T", 0, 3, 12, max_bytes=max_bytes, views=True)
        assert isinstance(copied.body, bytes)
        assert copied.count == (12 if max_bytes is None else 9)
        assert isinstance(viewed.body, memoryview) is side_by_side
        assert bytes(viewed.body) == copied.body
        del viewed
    for max_bytes in (None, 30_000):
        little = store.get("T", 0, 3, 5, max_bytes=max_bytes, views=True)
        assert little.count == (5 if max_bytes is None else 3)
        assert isinstance(little.body, bytes), "little is copied"
    store.close()
