"""One index file over a plain buffer: the layout byte by byte, searching, damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.properties import decode_properties, encode_properties, java_string_hash
from aiorocketmq.store import index_file, index_keys
from aiorocketmq.store.index_file import HEADER_SIZE, PAUSE_AFTER, IndexFile, index_file_size
from aiorocketmq.store.index_keys import hash_keys, hash_rows, key_hash, keys_of, only_key, topic_prefix

SLOTS, ITEMS = 7, 50
T0 = 1_700_000_000_000


def new_file(slots: int = SLOTS, items: int = ITEMS) -> tuple[bytearray, IndexFile]:
    buffer = bytearray(index_file_size(slots, items))
    return buffer, IndexFile(buffer, slots, items)


def found(index: IndexFile, hashed: int, begin: int = 0, end: int = 1 << 62) -> list[int]:
    return [phy_offset for phy_offset in index.find(hashed, begin, end) if phy_offset is not None]


def whatever(_hashed: int, _phy_offset: int) -> bool:
    """Every item has its message."""
    return True


# --- keys -----------------------------------------------------------------------------------------------------------


def test_the_usual_size() -> None:
    assert index_file_size(5_000_000, 20_000_000) == 420_000_040


def test_unique_key_first_then_keys_split_at_one_space() -> None:
    assert keys_of(encode_properties({"KEYS": "a  b c", "TAGS": "x", "UNIQ_KEY": "u"})) == [b"u", b"a", b"b", b"c"]
    assert keys_of(encode_properties({"UNIQ_KEY": "u"})) == [b"u"]
    assert keys_of(encode_properties({"TAGS": "KEYS"})) == []
    assert keys_of(b"") == []


def test_the_usual_message_has_one_key_and_it_stands_first() -> None:
    usual = b"UNIQ_KEY\x01u\x02TAGS\x01x"
    assert only_key(usual) == b"u"
    others = (
        b"",
        b"UNIQ_KEY\x01u",
        b"UNIQ_KEY\x01\x02a\x01b",
        usual + b"\x02KEYS\x01k",
        usual + b"\x02UNIQ_KEY\x01v",
        b"a\x01b\x02" + usual,
    )
    assert [only_key(other) for other in others] == [None] * len(others)


@given(st.dictionaries(st.sampled_from(["KEYS", "UNIQ_KEY", "XKEYS", "A"]), st.text("ab é😀", max_size=6), max_size=4))
def test_keys_are_those_of_the_decoded_properties(properties: dict[str, str]) -> None:
    encoded = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    decoded = decode_properties(encoded)
    expected = [decoded[name] for name in ("UNIQ_KEY",) if name in decoded]
    expected += [key for key in decoded.get("KEYS", "").split(" ") if key]
    assert [key.decode() for key in keys_of(encoded)] == expected
    only = only_key(encoded)
    assert only is None or [only.decode()] == expected


@pytest.mark.parametrize("fast", [True, False])
def test_hashes_of_many_keys_are_those_of_java(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.setattr(index_keys, "numpy", None)

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(["T", "topic", "中文"]), st.text(min_size=1, max_size=40)), max_size=40))
    def check(pairs: list[tuple[str, str]]) -> None:
        expected = []
        for topic, key in pairs:
            signed = java_string_hash(f"{topic}#{key}")
            expected.append(0 if signed == -(1 << 31) else abs(signed))
        prefixes = [topic_prefix(topic) for topic, _ in pairs]
        keys = [key.encode("utf-8", "replace") for _, key in pairs]
        assert list(hash_keys(prefixes, keys)) == expected
        assert [key_hash(*pair) for pair in pairs] == expected

    check()


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_hashes_of_very_many_keys_are_those_of_java(common: int, width: int, shift: int, prefix: int) -> None:
    """Words that all of them have in common, in front and behind, are looked at once at most."""
    pytest.importorskip("numpy")
    count, length = 1200, 8 * width
    start = b"7F00000100002A9F18B4AAC2" * 2
    own = [b"%08d" % (number // 2 * 7919 % 10**8) for number in range(count)]
    keys = [(start[: min(8 * common, length - 8)] + key + bytes([65 + shift]) * length)[:length] for key in own]
    assert list(hash_keys([prefix] * count, keys)) == [index_keys._hash_one(prefix, key) for key in keys]
    assert len(set(keys)) > 1


@pytest.mark.parametrize("count", [3, 1200])
@pytest.mark.parametrize("width", [24, 25])
def test_rows_of_keys_of_which_one_is_another(count: int, width: int) -> None:
    """The same hashes wherever the one that differs is, and none at all when a character of it is not ASCII."""
    numpy = pytest.importorskip("numpy")
    prefixes = numpy.array([topic_prefix("T")], numpy.uint32)
    for number in (0, 1, count - 1):
        for place in range(width):
            rows = numpy.full((count, width), ord("a"), numpy.uint8)
            rows[number, place] = ord("b")
            expected = [index_keys._hash_one(int(prefixes[0]), row.tobytes()) for row in rows]
            assert hash_rows(prefixes, rows).tolist() == expected
            rows[number, place] = 0x80
            assert hash_rows(prefixes, rows) is None


@pytest.mark.parametrize("count", [1, 100])
def test_the_number_without_an_absolute_value_is_zero(count: int) -> None:
    """``polygenelubricants`` has the hash -2^31."""
    topic_and_key = "polygenelubricants"
    assert java_string_hash(topic_and_key) == -(1 << 31)
    prefix = java_string_hash(topic_and_key[:-1]) & 0xFFFFFFFF
    assert list(hash_keys([prefix] * count, [b"s"] * count)) == [0] * count


# --- layout ---------------------------------------------------------------------------------------------------------


def test_every_byte_of_a_file_with_three_items() -> None:
    buffer, index = new_file()
    index.put([3, 10], [1000, 1000], [T0, T0])
    index.put([3], [2000], [T0 + 2999])
    assert struct.unpack_from(">qqqqii", buffer) == (T0, T0 + 2999, 1000, 2000, 1, 4)
    slots = struct.unpack_from(f">{SLOTS}i", buffer, HEADER_SIZE)
    assert slots == (0, 0, 0, 3, 0, 0, 0)  # 3 % 7 and 10 % 7 are one slot
    at = HEADER_SIZE + 4 * SLOTS
    items = [struct.unpack_from(">iqii", buffer, at + 20 * number) for number in range(5)]
    assert items == [(0, 0, 0, 0), (3, 1000, 0, 0), (10, 1000, 0, 1), (3, 2000, 2, 2), (0, 0, 0, 0)]


def test_a_file_behind_a_full_one_begins_with_its_end() -> None:
    _, full = new_file(items=3)
    assert full.room == 2
    full.put([1, 2], [5, 6], [T0, T0 + 10])
    assert full.room == 0
    buffer, index = new_file()
    index.follow(full)
    assert struct.unpack_from(">qqqqii", buffer) == (T0 + 10, T0 + 10, 6, 6, 0, 1)
    index.put([1], [9], [T0 + 5010])
    assert (index.begin_timestamp, index.begin_phy_offset) == (T0 + 5010, 9)
    assert list(index.items()) == [(1, 9, 5, 0)]  # counted from the end of the full one
    assert found(index, 1, T0 + 5010, T0 + 5010) == [9]


@pytest.mark.parametrize(("time", "seconds"), [(T0 - 5000, 0), (T0 + 1999, 1), (T0 + (1 << 50), 0x7FFFFFFF)])
def test_seconds_stay_in_their_limits(time: int, seconds: int) -> None:
    _, index = new_file()
    index.put([1, 1], [1, 2], [T0, time])
    assert list(index.items())[1][2] == seconds


def test_an_invalid_slot_counts_as_empty() -> None:
    buffer, index = new_file()
    struct.pack_into(">i", buffer, HEADER_SIZE + 4, 40)
    struct.pack_into(">i", buffer, HEADER_SIZE + 8, -1)
    index.put([1, 2], [10, 20], [T0, T0])
    assert [item[3] for item in index.items()] == [0, 0]
    assert index.slots_used == 2


# --- searching ------------------------------------------------------------------------------------------------------

messages = st.lists(st.tuples(st.integers(1, 13), st.integers(0, 9000)), min_size=1, max_size=ITEMS - 1)


@settings(deadline=None)
@given(messages, st.integers(1, 13), st.integers(0, 9000), st.integers(0, 9000))
def test_what_was_put_is_found_newest_first(puts: list[tuple[int, int]], hashed: int, begin: int, end: int) -> None:
    buffer, index = new_file()
    times = sorted(T0 + time for _, time in puts)
    for number, (own, _) in enumerate(puts):
        index.put([own], [number], [times[number]])
    mine = [number for number, (own, _) in enumerate(puts) if own == hashed]
    exact = [n for n in mine if T0 + begin <= times[n] <= T0 + end]
    near = [n for n in mine if T0 + begin - 1000 < times[n] < T0 + end + 1000]
    result = found(IndexFile(buffer, SLOTS, ITEMS), hashed, T0 + begin, T0 + end)
    assert result == sorted(result, reverse=True)
    assert set(exact) <= set(result) <= set(near)
    assert found(index, hashed) == mine[::-1]


def test_a_long_way_without_a_find_has_pauses() -> None:
    count = 3 * PAUSE_AFTER
    _, index = new_file(1, count + 2)
    index.put([1] + [2] * count, list(range(count + 1)), [T0] * (count + 1))
    assert list(index.find(1, T0, T0)) == [None, None, None, 0]


def test_a_chain_that_does_not_go_back_ends() -> None:
    buffer, index = new_file()
    index.put([1, 1], [10, 20], [T0, T0])
    struct.pack_into(">i", buffer, HEADER_SIZE + 4 * SLOTS + 20 + 16, 2)
    assert found(index, 1) == [20, 10]


# --- damage ---------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(messages, st.integers(0, 60))
def test_a_cut_file_is_as_if_the_rest_had_never_come(puts: list[tuple[int, int]], limit: int) -> None:
    _, index = new_file()
    _, expected = new_file()
    times = sorted(T0 + time * 1000 for _, time in puts)
    for number, (hashed, _) in enumerate(puts):
        index.put([hashed], [number], [times[number]])
        if number < limit:
            expected.put([hashed], [number], [times[number]])
    assert index.cut(limit, whatever) is None
    assert list(index.items()) == list(expected.items())
    assert index.slots_used == expected.slots_used
    for hashed in range(14):
        assert found(index, hashed) == found(expected, hashed)
    if limit:
        assert index.end_phy_offset == expected.end_phy_offset
        assert expected.end_timestamp <= index.end_timestamp <= expected.end_timestamp + 999


def test_a_lost_item_is_noticed() -> None:
    buffer, index = new_file()
    index.put([1, 2, 3], [100, 200, 300], [T0, T0, T0])
    at = HEADER_SIZE + 4 * SLOTS + 20 * 2
    buffer[at : at + 20] = bytes(20)
    assert index.cut(1000, whatever) == 100
    assert [item[1] for item in index.items()] == [100]
    assert found(index, 1) == [100]
    assert found(index, 2) == found(index, 3) == []


def test_an_item_that_is_torn_and_looks_like_one_in_front_of_it_is_noticed() -> None:
    buffer, index = new_file()
    index.put([1, 2, 3, 4], [0x100, 0x200, 0x345, 0x400], [T0, T0, T0, T0])
    at = HEADER_SIZE + 4 * SLOTS + 20 * 3
    assert buffer[at + 11] == 0x45
    buffer[at + 11 : at + 20] = bytes(9)
    assert index.cut(0x345, lambda *item: item in {(1, 0x100), (2, 0x200), (3, 0x345), (4, 0x400)}) == 0x200
    assert [item[1] for item in index.items()] == [0x100, 0x200]


def test_items_at_end() -> None:
    _, index = new_file()
    assert index.items_at_end() == 0
    index.put([1, 2, 3], [100, 200, 200], [T0, T0, T0])
    assert index.items_at_end() == 2


@pytest.mark.skipif(index_file.numpy is None, reason="numpy is not installed: items are only put one by one")
@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 50_000)), min_size=40, max_size=300),
    st.integers(16, 60),
    st.sampled_from([7, 1000, 1_000_003]),
    st.sampled_from([0, -1, 150, 2**31 - 1]),
)
def test_items_put_at_once_are_those_put_one_by_one(items: list[tuple[int, int]], step: int, slots: int, stale: int) -> None:
    """Whatever stands in the slots: what a crash left there may point behind the last item."""
    hashes = [hashed for hashed, _ in items]
    offsets = list(range(100, 100 + len(items)))
    times = [T0 + passed for passed in sorted(passed for _, passed in items)]
    together, single = (new_file(slots, 400) for _ in range(2))
    for buffer, _ in (together, single):
        for hashed in hashes:
            struct.pack_into(">i", buffer, HEADER_SIZE + hashed % slots * 4, stale)
    for at in range(0, len(items), step):
        together[1].put(hashes[at : at + step], offsets[at : at + step], times[at : at + step])
    for number in range(len(items)):
        single[1].put(hashes[number : number + 1], offsets[number : number + 1], times[number : number + 1])
    assert together[0] == single[0]


def test_many_items_are_written_without_the_buffer() -> None:
    expected, together = new_file(1000, 400)
    buffer, _ = new_file(1000, 400)
    sizes: list[int] = []

    def write(position: int, data: bytes) -> None:
        sizes.append(len(data))
        buffer[position : position + len(data)] = data

    written = IndexFile(buffer, 1000, 400, write)
    for at, count in ((0, 20), (20, 300)):
        hashes = [number * 7919 for number in range(at, at + count)]
        for index in (together, written):
            index.put(hashes, range(at, at + count), [T0 + at] * count)
    assert buffer == expected
    assert [size for size in sizes if size < 4096] == []
    assert sum(sizes) == 300 * 20
