"""The usual batches: column by column, with numpy and without, the same comes out as item by item."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.batch import BatchError, BatchItem, encode_batch
from aiorocketmq.remoting.protocol.message_id import pack_host
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.store.batch_layout import HAS_NUMPY, BatchLayout, shape_of
from aiorocketmq.store.batch_records import BatchEncoder, BatchRecords
from aiorocketmq.store.index_keys import UNIQUE_KEY_AT

from .test_batch_records import HOST, encode
from .world import BORN_HOST, NOW, open_store

WAYS = [False, *([True] if HAS_NUMPY else [])]

RESTS = [b"\x02TAGS\x01A", b"\x02WAIT\x01true\x02TAGS\x01B\x02", b"\x02", b"\x02own\x011\x02TAGS\x01A", b"\x02KEYS\x01k1 k2"]
SHARED = [b"", b"CLUSTER\x01c", b"WAIT\x01true\x02CLUSTER\x01c", b"TAGS\x01C", b"KEYS\x01k", b"a\x01" + bytes(32700)]
hosts = st.sampled_from([HOST, pack_host("::2", 3)])


class OneByOne(BatchEncoder):
    """The way that any batch can go."""

    def _layout_of(self, data: bytes, shared: bytes, topic_field: bytes, head_size: int) -> BatchLayout | None:
        return None


@st.composite
def usual_batches(draw: st.DrawFn, even: bool) -> list[BatchItem]:
    """Bodies of one length or of any, unique keys of one length, everything else the same."""
    count, key_size, least = draw(st.integers(8 if even else 14, 20)), draw(st.integers(1, 33)), draw(st.integers(0, 40))
    most = least if even else least + 20
    bodies = draw(st.lists(st.binary(min_size=least, max_size=most), min_size=count, max_size=count))
    letters = st.text("0123456789ABCDEFx", min_size=key_size, max_size=key_size)
    keys = draw(st.lists(letters, min_size=count, max_size=count))
    flag, rest = draw(st.integers(-(2**31), 2**31 - 1)), draw(st.sampled_from(RESTS))
    return [BatchItem(flag, body, b"UNIQ_KEY\x01" + key.encode() + rest) for body, key in zip(bodies, keys, strict=True)]


def of_index(records: BatchRecords) -> list[tuple[int, bytes]]:
    """Where messages lie and their only keys, if they are known."""
    if records.columns is not None:
        rows, offsets = records.columns
        assert rows.tobytes().isascii(), "those are not hashed like this"
        return [(offset, row.tobytes()) for offset, row in zip(offsets.tolist(), rows, strict=True)]
    return [(p[0], p[2][UNIQUE_KEY_AT : p[5]]) for p in records.pending]


def outcome(work: Callable[[], BatchRecords]) -> object:
    """Everything that comes of a batch."""
    try:
        records = work()
    except BatchError as error:
        return str(error)
    return bytes(records.data), list(records.offsets), bytes(records.units), set(records.tags_codes), of_index(records)


@pytest.mark.parametrize("with_numpy", WAYS)
@settings(deadline=None)
@given(st.lists(usual_batches(True) | usual_batches(False), min_size=1, max_size=3), st.sampled_from(SHARED), hosts)
def test_as_item_by_item(with_numpy: bool, batches: list[list[BatchItem]], shared: bytes, host: bytes) -> None:
    usual, one_by_one = BatchEncoder(HOST, with_numpy=with_numpy), OneByOne(HOST)
    for batch in batches:
        data = encode_batch(batch)
        assert outcome(lambda d=data: encode(d, shared, usual, host)) == outcome(
            lambda d=data: encode(d, shared, one_by_one, host)
        )


@pytest.mark.parametrize("with_numpy", WAYS)
@pytest.mark.parametrize("longer", [0, 1])
def test_any_byte_of_an_item_may_be_another(longer: int, with_numpy: bool) -> None:
    """That can make another shape of the item, another key, or no batch at all."""
    items = [BatchItem(7, b"abc" + bytes(n % 2 * longer), b"UNIQ_KEY\x01k%02d\x02TAGS\x01A\x02" % n) for n in range(20)]
    data = encode_batch(items)
    usual, one_by_one = BatchEncoder(HOST, with_numpy=with_numpy), OneByOne(HOST)
    for begin in (0, len(encode_batch(items[:3])), len(encode_batch(items[:-1]))):
        for at in range(begin, begin + len(encode_batch(items[:1]))):
            for byte in b"\x00\x01\x02\x08A\xc3":
                other = data[:at] + bytes([byte]) + data[at + 1 :]
                assert outcome(lambda d=other: encode(d, b"C\x01c", usual)) == outcome(
                    lambda d=other: encode(d, b"C\x01c", one_by_one)
                )


@pytest.mark.parametrize("shared", [b"CLUSTER\x01c", b""])
@pytest.mark.parametrize("rest", [b"\x02WAIT\x01true\x02TAGS\x01A", b"\x02WAIT\x01true"])
@pytest.mark.parametrize("sizes", [[128], *([[100, 128]] if HAS_NUMPY else [])])
def test_the_usual_batch_goes_column_by_column(sizes: list[int], rest: bytes, shared: bytes) -> None:
    bodies = [bytes(sizes[number % len(sizes)]) for number in range(33)]
    data = encode_batch([BatchItem(0, body, b"UNIQ_KEY\x01%032X" % n + rest) for n, body in enumerate(bodies)])
    assert shape_of(data) == (0, sizes[0] if len(sizes) == 1 else 0, 32, rest)
    encoder = BatchEncoder(HOST)
    encoder._one_by_one = None  # type: ignore[assignment,method-assign]
    assert len(encode(data, shared, encoder).offsets) == 33


def test_layouts_are_not_kept_for_ever() -> None:
    encoder = BatchEncoder(HOST)
    for number in range(1000):
        rest = b"\x02pair\x01%d" % number
        encode(encode_batch([BatchItem(0, b"x", b"UNIQ_KEY\x01a" + rest)] * 10), b"", encoder)
    assert len(encoder._layouts) <= 500
    large = BatchItem(0, bytes(5000), b"UNIQ_KEY\x01a\x02b")
    assert shape_of(encode_batch([large] * 20)) == (0, 0, 1, b"\x02b")
    assert shape_of(encode_batch([BatchItem(0, b"x", large.properties + bytes(5000))] * 20)) is None


def test_all_are_in_the_index_and_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fields: dict[str, Any] = {"born_host": BORN_HOST, "born_timestamp": NOW, "store_timestamp": NOW}
    sent: list[tuple[str, str, int]] = []
    for number, (topic, width, count) in enumerate(
        [("T", 5, 9), ("T", 5, 30), ("U", 5, 8), ("T", 7, 8), ("T", 7, 3), ("U", 7, 20)]
    ):
        if number in (0, 5):
            single = store.put_message("T", 0, b"", b"UNIQ_KEY\x01single%d\x02" % number, **fields)
            sent.append(("T", f"single{number}", single.phy_offset))
        keys = [f"{number}{n:0{width}d}" for n in range(count)]
        items = [BatchItem(0, b"body", f"UNIQ_KEY\x01{key}\x02TAGS\x01A".encode()) for key in keys]
        result = store.put_batch(topic, 0, items, b"CLUSTER\x01c", **fields)
        sent += zip([topic] * count, keys, result.phy_offsets, strict=True)
        assert store._indexing.position(-1) == sent[0][2]
    assert store._indexing.waiting == len(sent)
    store.close()  # builds what waits, in files of 39 items
    store = open_store(tmp_path)
    for topic, key, offset in sent:
        record = store.query(topic, key, 10, 0, 1 << 62).records
        assert decode_record(record).commit_log_offset == offset, key
    store.close()
