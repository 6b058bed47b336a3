"""A flipped bit in the commit log costs its own record, and is told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.remoting.protocol.record.verdict import problem_of
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.log.damage import DamagedRecords, lies_in
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.status import GetMessageStatus
from tests.stored import decode_messages

from ...fault.damage import flip
from ..world import BORN_HOST, STORE_HOST, Filter, open_store, put_ok

COUNT = 40
BAD = 17
SIZE_AT, MAGIC_AT, BODY_AT = 3, 5, 90


def opened(root: Path) -> MessageStore:
    return open_store(root, mapped_file_size_consume_queue=2000)


def filled(root: Path, kind: str) -> tuple[MessageStore, int]:
    """Records of one queue, and where one of them lies: side by side or among others, of one size
    or of many."""
    store, place = opened(root), 0
    for number in range(COUNT):
        size = 50 if "even" in kind.split() else 30 + number * 7 % 40
        result = put_ok(store, body=b"%02d" % number + b"x" * size, properties={"TAGS": "a"})
        place = result.phy_offset if number == BAD else place
        if "apart" in kind:
            put_ok(store, "Other", body=b"y" * 50)
    return store, place


def pulled(store: MessageStore, count: int = 32, tags: frozenset[int] | None = None) -> list[int]:
    """The numbers of the messages that come; as a client reads them that stops at the first broken
    record."""
    found, offset = [], 0
    while offset < COUNT:
        result = store.get("T", 0, offset, count, tags=tags)
        assert result.next_begin_offset > offset
        assert result.count == len(decode_messages(result.body))
        found += [int(message.body[:2]) for message in decode_messages(result.body)]
        offset = result.next_begin_offset
    return found


REST = [number for number in range(COUNT) if number != BAD]


@pytest.mark.parametrize("at", [SIZE_AT, MAGIC_AT])
@pytest.mark.parametrize("kind", ["even", "apart even", "many sizes", "apart of many sizes"])
@pytest.mark.parametrize("tags", [None, frozenset({tags_code("a")})], ids=["all", "tags"])
def test_a_bit_in_a_head_costs_no_neighbour_of_a_running_store(
    tmp_path: Path,
    kind: str,
    at: int,
    tags: frozenset[int] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, place = filled(tmp_path, kind)
    flip(tmp_path, place + at)
    assert pulled(store, tags=tags) == REST
    assert pulled(store, 1, tags=tags) == REST
    assert (store.damage.found, list(store.damage.places)) == (1, [place])
    [line] = [
        record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()
    ]
    assert f"phy_offset={place} " in line
    assert f"queue=T/0 offset={BAD} " in line
    store.close()


@pytest.mark.parametrize("at", [SIZE_AT, MAGIC_AT, 10, 30, 87, BODY_AT, -3, "topic"])
@pytest.mark.parametrize("tags", [None, frozenset({tags_code("a")})], ids=["all", "tags"])
def test_what_comes_from_the_disk_is_checked_whole(
    tmp_path: Path, at: int | str, tags: frozenset[int] | None
) -> None:
    """Size, magic, CRC, own place, length of the body, the body, length of the topic."""
    store, place = filled(tmp_path, "even")
    store.close()
    flip(tmp_path, place + (88 + 52 if at == "topic" else int(at)))
    store = opened(tmp_path)
    if at == -3:  # in the record before this one: its properties, which no CRC covers
        assert pulled(store, tags=tags) == list(range(COUNT))
    else:
        assert pulled(store, tags=tags) == REST
    assert store.get("T", 0, 0).damaged == (at != -3)
    store.close()


def test_a_queue_of_nothing_but_damage_is_got_past(tmp_path: Path) -> None:
    store, place = filled(tmp_path, "even")
    flip(tmp_path, place + MAGIC_AT)
    result = store.get("T", 0, BAD, 1, record_filter=Filter(scan_limit=1))
    assert (result.status, result.next_begin_offset) == (
        GetMessageStatus.MESSAGE_WAS_REMOVING,
        BAD + 1,
    )
    assert (result.body, result.count, result.damaged) == (b"", 0, 1)
    store.close()


def test_a_damaged_message_is_not_found_by_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    place = put_ok(store, properties={"KEYS": "k"}).phy_offset
    store._index_service.close()
    assert at_once(store.query.steps("T", "k", 8, 0, 1 << 62)).records
    flip(tmp_path, place + BODY_AT)
    assert not at_once(store.query.steps("T", "k", 8, 0, 1 << 62)).records
    store.close()


def test_more_damage_than_anybody_reads_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    damage = DamagedRecords(threading.Lock())
    for number in range(10_100):
        damage.note(number * 100, 100, "it is", "queue=T/0 offset=0")
        damage.note(number * 100, 100, "it is", "queue=T/0 offset=0")
    assert (
        len([record for record in caplog.records if record.name == "aiorocketmq.store.log.damage"])
        == 10_001
    )
    assert damage.found == 10_001
    damage.mend(500)
    assert damage.mended == 1
    assert 500 not in damage.places


def test_what_is_longer_than_was_known_is_another_place_behind_it() -> None:
    """A pull finds one record, the scrub all that has lost its heads there."""
    damage = DamagedRecords(threading.Lock())
    for place in ((100, 50), (100, 200), (100, 120), (150, 150), (100, 210)):
        damage.note(*place, "it is", "here")
    assert damage.places == {100: 50, 150: 150, 300: 10}
    assert damage.found == 3


def test_a_record_within_a_stretch_is_waited_for(tmp_path: Path) -> None:
    """Of that only the begin is known, not what was sent to which queue."""
    store, place = filled(tmp_path, "apart even")
    store.damage.is_watched = True
    units = store.entries.some("T", 0, BAD, 1)
    assert units
    unit = units[0]
    store.damage.remember(place - 500, 500)
    assert not store.is_awaited(*unit[:2])
    assert store.get("T", 0, BAD, 1).count == 1
    store.damage.remember(place - 400, 3000)
    assert store.is_awaited(*unit[:2])
    assert store.get("T", 0, BAD, 1).next_begin_offset == BAD
    for known in store.damage.places:
        store.damage.is_asked_for(known)
    assert not store.is_awaited(*unit[:2])
    store.close()


@given(st.dictionaries(st.integers(0, 60), st.integers(1, 30)), st.integers(0, 100))
def test_a_byte_lies_in_any_of_several_places(places: dict[int, int], at: int) -> None:
    assert lies_in(places)(at) == any(begin <= at < begin + n for begin, n in places.items())


def record(number: int, size: int, *, v6: bool = False, phy_offset: int | None = None) -> bytes:
    return encode_record(NewRecord(
        "Topic", 0, bytes([number]) * size, b"KEYS\x01k", queue_offset=number,
        phy_offset=1000 + number if phy_offset is None else phy_offset, sys_flag=0,
        born_timestamp=1, born_host=bytes(20) if v6 else BORN_HOST, store_timestamp=2,
        store_host=STORE_HOST,
    ))  # fmt: skip


@given(st.booleans(), st.integers(0, 40), st.data())
def test_what_no_crc_covers_is_all_that_may_change_unseen(
    v6: bool, size: int, data: st.DataObject
) -> None:
    whole = record(1, size, v6=v6)
    assert problem_of(b"abc" + whole + b"d", 3, len(whole), 1001) is None
    assert problem_of(whole, 0, len(whole), 1002) is not None
    at, bits = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
    changed = whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]
    messages, _ = read_salvaged(changed, "b")
    if problem_of(changed, 0, len(whole), 1001) is None:
        assert [message.stored_body for message in messages] == [bytes([1]) * size]
