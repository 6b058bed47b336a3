"""What is stored of a send: compiled, and in Python. Records, batches, property strings."""

from __future__ import annotations

import threading
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.stored_properties import stored_properties
from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.record import decode_record, record_overhead, topic_field
from aiorocketmq.store.batch_records import batch_size

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
pure_record, pure_batch = leaves.TWINS["put_record"], leaves.TWINS["put_batch"]
pure_size = leaves.TWINS[batch_size.__name__]
pure_properties = leaves.TWINS[stored_properties.__name__]

V6_BORN, V6_STORE = 16, 32
i32, i64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
hosts = st.sampled_from([b"\x7f\0\0\x01\0\0\x2a\x9f", bytes(range(20)), b"short"])
bodies = st.one_of(st.binary(max_size=300), st.sampled_from([b"", b"x" * 65_536, bytes(range(256)) * 300]))
pairs = st.sampled_from(
    [
        "UNIQ_KEY\x01a1", "UNIQ_KEY\x01", "KEYS\x01k1 k2", "XKEYS\x01k", "TAGS\x01A", "TAGS\x01", "TAGS\x01é😀",
        "WAIT\x01true", "WAIT\x01", "AWAIT\x01x", "DELAY\x010", "DELAY\x013", "DELAY\x01", "TRAN_MSG\x01true",
        "TRAN_MSG\x01TrUe",
        "TRAN_MSG\x01false", "TRAN_MSG\x01\x01true", "CLUSTER\x01x", "odd", "", "\x01", "\x01x", "é\x01中", "own\x011",
    ]
)  # fmt: skip
texts = st.one_of(
    st.lists(pairs, max_size=6).map("\x02".join),
    st.text(alphabet="UNIQ_KEYTAGSWAITDL\x01\x02 é0true", max_size=40),
    st.text(),
)


def both(name: str, twin: Any, size: int, units: int | None, arguments: tuple[Any, ...]) -> Any:
    """What both do, and leave in their buffers."""
    results = []
    for function in (getattr(compiled, name), twin):
        log, unit_room = bytearray(b"\xaa" * size), None if units is None else bytearray(b"\xbb" * units)
        numbers = () if name == "put_batch" else (unit_room, *arguments[-2:])
        given = arguments if name == "put_batch" else arguments[:-2]
        results.append((outcome(function, log, *given, *numbers), bytes(log), unit_room))
    assert results[0] == results[1]
    return results[0]


@given(
    st.tuples(i64, i64, st.sampled_from([b"\x01T", topic_field("a" * 127)]), i32, bodies, st.binary(max_size=300), i32),
    st.tuples(st.integers(0, 0x3FF), i64, hosts, i64, hosts, i32, i64),
    st.integers(-1, 40),
    st.integers(-30, 3),
    st.sampled_from([None, 0, 20, 25]),
    st.integers(-1, 6),
    i64,
)
def test_records(
    front: tuple[Any, ...], back: tuple[Any, ...], position: int, more: int, units: int | None, unit_at: int, code: int
) -> None:
    size = record_overhead(back[0]) - 1 + len(front[2]) + len(front[4]) + len(front[5])
    arguments = (position, *front, *back, unit_at, code)
    result, log, _ = both("put_record", pure_record, max(0, position + size + more), units, arguments)
    if result == size:
        message = decode_record(log[position : position + size])
        assert (message.stored_body, message.raw_properties, message.queue_offset) == (front[4], front[5], front[1])


def record_of(body: Any, properties: bytes = b"", **changed: Any) -> tuple[Any, ...]:
    fields = {
        "flag": 0,
        "sys_flag": 0,
        "born": 1,
        "born_host": bytes(8),
        "stored": 2,
        "host": bytes(8),
        "times": 0,
        "half": 0,
    }
    return (0, 0, 0, b"\x01T", 3, body, properties, *(fields | changed).values(), 0, 5)


@pytest.mark.parametrize(
    "body", [b"bytes", memoryview(b"a view"), bytearray(b"array"), memoryview(bytes(100_000))[7:], 5, None, "text"]
)
def test_kinds_of_bodies(body: Any) -> None:
    if isinstance(body, (bytes, bytearray, memoryview)):
        result, log, _ = both("put_record", pure_record, 120_000, 20, record_of(body))
        assert decode_record(log[:result]).stored_body == bytes(body)
    else:
        for function in (compiled.put_record, pure_record):
            with pytest.raises(TypeError):
                function(bytearray(500), *record_of(body)[:-2], None, 0, 0)


@pytest.mark.parametrize("size", [32767, 32768, 65535, 65536])
def test_long_properties(size: int) -> None:
    both("put_record", pure_record, 70_000, 20, record_of(b"body", bytes(size)))


def test_nothing_is_kept_of_a_buffer() -> None:
    log, units = bytearray(500), bytearray(20)
    for arguments in (record_of(b"body"), record_of(b"body", host=b"odd")):
        outcome(compiled.put_record, log, *arguments[:-2], units, 0, 5)
        log.clear(), units.clear()  # what is exported cannot change its size
        log.extend(bytes(500)), units.extend(bytes(20))
    with pytest.raises(ValueError, match="no room"):
        compiled.put_record(log, *record_of(bytes(500))[:-2], None, 0, 0)
    log.clear()


def test_who_looks_on_sees_no_record_or_a_whole_one() -> None:
    """The first bytes come last, and while a long body is written other threads run."""
    body = bytes(range(256)) * (1 << 16)
    size = record_overhead(0) + 1 + len(body)
    log, stop = bytearray(size), threading.Event()
    seen: set[bytes] = set()

    def look() -> None:
        while not stop.is_set():
            head = bytes(log[:8])
            if head != bytes(8):
                assert zlib.crc32(log[88 : 88 + len(body)]) == zlib.crc32(body)
            seen.add(head)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        assert compiled.put_record(log, *record_of(body)[:-2], None, 0, 0) == size
    finally:
        stop.set()
        thread.join()
    assert decode_record(bytes(log)).stored_body == body


property_bytes = st.one_of(texts.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=20))
item = st.builds(BatchItem, i32, st.binary(max_size=60), property_bytes)


@given(st.lists(item, max_size=6), property_bytes, st.integers(-40, 10), st.sampled_from([0, V6_BORN, V6_STORE]), st.data())
def test_batches(items: list[BatchItem], shared: bytes, more: int, sys_flag: int, data: st.DataObject) -> None:
    body = bytearray(encode_batch(items))
    for at in data.draw(st.lists(st.integers(0, max(0, len(body) - 1)), max_size=2)) if body else []:
        body[at] = data.draw(st.sampled_from([0, 1, 2, 20, 0x7F, 0xFF]))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    measured = outcome(compiled.batch_size, cut, shared)
    assert measured == outcome(pure_size, cut, shared)
    born, store = bytes(20 if sys_flag & V6_BORN else 8), bytes(20 if sys_flag & V6_STORE else 8)
    fields = sys_flag, 5, born, 6, store, 1
    size = 0 if measured is None else measured[1] + measured[0] * (record_overhead(sys_flag) + 1)
    result, *_ = both(
        "put_batch", pure_batch, max(0, 9 + size + more), None, (9, 1000, 7, "T", b"\x01T", 3, cut, 0, shared, *fields)
    )
    if measured is not None and more >= 0:
        assert result[:2] == (len(cut), 9 + size)


def test_a_long_batch_is_written_in_stretches() -> None:
    """The same bytes in both, whatever stretches it takes."""
    for items in (
        [BatchItem(n, b"", b"UNIQ_KEY\x01%d\x02TAGS\x01%d" % (n, n % 7)) for n in range(3000)],
        [BatchItem(n, bytes([n % 256]) * 100_000, "TAGS\x01é".encode()) for n in range(17)],
    ):
        body, shared = encode_batch(items), b"CLUSTER\x01c"
        count, contents = batch_size(body, shared) or (0, 0)
        assert count == len(items)
        logs, stretches = [], []
        for function in (compiled.put_batch, pure_batch):
            log, at, position, number = bytearray(contents + count * (record_overhead(0) + 1)), 0, 0, 0
            steps = []
            while at < len(body):
                at, position, *written = function(
                    log, position, 50 + position, number, "T", b"\x01T", 3, body, at, shared, 0, 5, bytes(8), 6, bytes(8), 1
                )
                number += len(written[0])
                steps.append((at, position, *written))
            assert position == len(log)
            logs.append(log)
            stretches.append(steps)
        assert logs[0] == logs[1]
        assert stretches[0] == stretches[1]
        assert len(stretches[0]) > 2
        assert all(first[0] < second[0] for first, second in pairwise(stretches[0]))


@given(texts, st.sampled_from([b"CLUSTER\x01c", b"CLUSTER\x01\xc3\xa9"]))
def test_property_strings(text: str, pair: bytes) -> None:
    assert outcome(compiled.stored_properties, text, pair) == outcome(pure_properties, text, pair)


@pytest.mark.parametrize("text", ["\ud800", "DELAY\x013\x02a\x01\ud800", "UNIQ_KEY\x01a\x02TAGS\x01é\x02WAIT\x01true"])
def test_odd_text(text: str) -> None:
    assert outcome(compiled.stored_properties, text, b"") == outcome(pure_properties, text, b"")
