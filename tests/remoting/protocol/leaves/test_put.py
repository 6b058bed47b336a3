"""What is stored of a send: compiled, and in Python. Records, batches, property strings."""

from __future__ import annotations

import threading
import zlib
from itertools import pairwise
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.leaves import pure_index
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import decode_record, record_overhead, topic_field
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.record.batch_records import batch_size, item_size
from aiorocketmq.remoting.protocol.record.entry import entry_head
from aiorocketmq.remoting.protocol.record.stored_properties import stored_properties

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
pure_size = leaves.TWINS[batch_size.__name__]
pure_properties = leaves.TWINS[stored_properties.__name__]

V6_BORN, V6_STORE = 16, 32
i32, i64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
hosts = st.sampled_from([b"\x7f\0\0\x01\0\0\x2a\x9f", bytes(range(20)), b"short"])
bodies = st.one_of(
    st.binary(max_size=300), st.sampled_from([b"", b"x" * 65_536, bytes(range(256)) * 300])
)
pairs = st.sampled_from(
    [
        "UNIQ_KEY\x01a1", "UNIQ_KEY\x01", "KEYS\x01k1 k2", "XKEYS\x01k", "TAGS\x01A", "TAGS\x01",
        "TAGS\x01é😀",
        "WAIT\x01true", "WAIT\x01", "AWAIT\x01x", "DELAY\x010", "DELAY\x013", "DELAY\x01",
        "TRAN_MSG\x01true",
        "TRAN_MSG\x01TrUe",
        "TRAN_MSG\x01false", "TRAN_MSG\x01\x01true", "CLUSTER\x01x", "odd", "", "\x01", "\x01x",
        "é\x01中", "own\x011",
    ]
)  # fmt: skip
texts = st.one_of(
    st.lists(pairs, max_size=6).map("\x02".join),
    st.text(alphabet="UNIQ_KEYTAGSWAITDL\x01\x02 é0true", max_size=40),
    st.text(),
)


END = {"base": 1000, "limit": 1 << 40, "max_body": 1 << 40, "max_record": 1 << 40}


def ends(kind: Any, log: bytearray, units: bytearray, **changed: Any) -> tuple[Any, Any]:
    """Of a log and a queue; ``kind``: the compiled leaves, or the module of their twins."""
    log_end, queue_end = kind["LogEnd"](), kind["QueueEnd"]()
    log_end.buffer, queue_end.buffer, queue_end.limit = log, units, len(units)
    queue_end.topic_field = b"\x01T"
    for name, value in (END | changed).items():
        setattr(queue_end if name == "queue_id" else log_end, name, value)
    return log_end, queue_end


ENTRIES = {"head": 48, "index": 7, "term": 3}
KINDS: tuple[dict[str, Any], ...] = (
    {name: getattr(compiled, name, None) for name in (*leaves.TWINS, "KeyEntries")},
    {**leaves.TWINS, "KeyEntries": pure_index.KeyEntries},
)
SEEN = (
    (
        "base",
        "position",
        "limit",
        "last_store_timestamp",
        "max_body",
        "max_record",
        "store_host",
        "head",
        "index",
        "term",
    ),
    ("position", "limit", "max_offset", "queue_id", "topic_field"),
)


def both(
    name: str,
    size: int,
    units: int,
    changed: dict[str, Any],
    arguments: tuple[Any, ...],
    **of_queue: Any,
) -> Any:
    """What both do, and leave in their buffers and ends."""
    results: list[Any] = []
    for kind in KINDS:
        log, unit_room = bytearray(b"\xaa" * size), bytearray(b"\xbb" * units)
        found = ends(kind, log, unit_room, **changed)
        for attribute, value in of_queue.items():
            setattr(found[1], attribute, value)
        keys = kind["KeyEntries"]()
        result = outcome(kind[name], *found, keys, *arguments)
        left = [
            [getattr(end, seen) for seen in names] for end, names in zip(found, SEEN, strict=True)
        ]
        entries: list[list[int]] = [[], [], []]
        while keys:
            entries = [
                [*column, *more] for column, more in zip(entries, keys.take(1 << 30), strict=True)
            ]
        left.append(entries)
        results.append((result, bytes(log), bytes(unit_room), left))
    assert results[0] == results[1]
    return results[0]


@given(
    st.tuples(
        bodies, st.binary(max_size=300), i32, st.integers(0, 0x3FF), i64, hosts, i64, i32, i64, i64
    ),
    hosts,
    st.tuples(st.integers(-1, 40), st.integers(-30, 3), st.integers(-3, 400)),
    st.tuples(st.sampled_from([0, 20, 25, 60]), st.integers(-1, 25), st.integers(-1, 50)),
    st.tuples(
        st.integers(0, 2**50),
        st.integers(0, 2**58),
        i32,
        st.sampled_from([b"\x01T", topic_field("a" * 127)]),
    ),
    st.sampled_from([{}, {"max_body": 5}, {"max_record": 150}, ENTRIES, ENTRIES]),
)
def test_records(
    arguments: tuple[Any, ...],
    store_host: bytes,
    log: tuple[int, int, int],
    units: tuple[int, int, int],
    numbers: tuple[int, int, int, bytes],
    limits: dict[str, int],
) -> None:
    body, properties, _, sys_flag, _, born_host, *_ = arguments
    (position, more, behind), (room, unit_at, unit_limit), (base, number, queue_id, topic) = (
        log,
        units,
        numbers,
    )
    size = 75 + len(topic) - 1 + len(body) + len(properties) + len(born_host) + len(store_host)
    head = limits.get("head", 0)
    end = {
        "base": base,
        "position": position,
        "limit": position + head + size + behind,
        "store_host": store_host,
        **limits,
    }
    of_queue = {
        "position": unit_at,
        "limit": unit_limit,
        "max_offset": number,
        "queue_id": queue_id,
        "topic_field": topic,
    }
    result, written, written_units, _ = both(
        "put_record", max(0, position + head + size + more), room, end, arguments, **of_queue
    )
    if isinstance(result, tuple) and len(result) == 3 and isinstance(result[0], int):
        phy_offset, queue_offset, written_size = result
        place = base + position + head
        message = decode_record(written[position + head : position + head + size])
        assert (phy_offset, written_size, message.commit_log_offset) == (place, size, place)
        if head:
            assert written[position : position + head] == entry_head(7, 3, base + position, size)
        assert (message.stored_body, message.raw_properties, message.queue_offset) == (
            body,
            properties,
            queue_offset,
        )
        numbered = not sys_flag & MessageSysFlag.TRANSACTION_PREPARED
        assert queue_offset == (number if numbered else 0)
        unit = pack(">qiq", phy_offset, size, arguments[-1])
        assert not numbered or written_units[unit_at : unit_at + 20] == unit


def record_of(body: Any, properties: bytes = b"", born_host: bytes = bytes(8)) -> tuple[Any, ...]:
    return (body, properties, 0, 0, 1, born_host, 2, 0, 0, 5)


@pytest.mark.parametrize(
    "body",
    [
        b"bytes",
        memoryview(b"a view"),
        bytearray(b"array"),
        memoryview(bytes(100_000))[7:],
        5,
        None,
        "text",
    ],
)
def test_kinds_of_bodies(body: Any) -> None:
    if isinstance(body, (bytes, bytearray, memoryview)):
        result, log, *_ = both("put_record", 120_000, 20, {}, record_of(body))
        assert decode_record(log[: result[2]]).stored_body == bytes(body)
    else:
        for kind in KINDS:
            with pytest.raises(TypeError):
                kind["put_record"](
                    *ends(kind, bytearray(500), bytearray(20)), None, *record_of(body)
                )


@pytest.mark.parametrize("size", [32767, 32768, 65535, 65536])
def test_long_properties(size: int) -> None:
    both("put_record", 70_000, 20, {}, record_of(b"body", bytes(size)))


def test_nothing_is_kept_of_a_buffer() -> None:
    log, units = bytearray(500), bytearray(20)
    for arguments in (
        record_of(b"body"),
        record_of(b"body", born_host=b"odd"),
        record_of(bytes(500)),
        record_of(5),
    ):
        outcome(compiled.put_record, *ends(KINDS[0], log, units), None, *arguments)
        for buffer, size in ((log, 500), (units, 20)):
            buffer.clear()  # what is exported cannot change its size
            buffer.extend(bytes(size))


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
        assert compiled.put_record(*ends(KINDS[0], log, bytearray(20)), None, *record_of(body)) == (
            1000,
            0,
            size,
        )
    finally:
        stop.set()
        thread.join()
    assert decode_record(bytes(log)).stored_body == body


property_bytes = st.one_of(
    texts.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=20)
)
item = st.builds(BatchItem, i32, st.binary(max_size=60), property_bytes)


@given(
    st.lists(item, max_size=6),
    property_bytes,
    st.integers(-40, 10),
    st.sampled_from([0, V6_BORN, V6_STORE]),
    st.data(),
)
def test_batches(
    items: list[BatchItem], shared: bytes, more: int, sys_flag: int, data: st.DataObject
) -> None:
    body = bytearray(encode_batch(items))
    for at in (
        data.draw(st.lists(st.integers(0, max(0, len(body) - 1)), max_size=2)) if body else []
    ):
        body[at] = data.draw(st.sampled_from([0, 1, 2, 20, 0x7F, 0xFF]))
    cut = (
        bytes(body[: data.draw(st.integers(0, len(body)))])
        if data.draw(st.booleans())
        else bytes(body)
    )
    measured: Any = outcome(compiled.batch_size, cut, shared)
    assert measured == outcome(pure_size, cut, shared)
    born, store = bytes(20 if sys_flag & V6_BORN else 8), bytes(20 if sys_flag & V6_STORE else 8)
    size = 0 if measured is None else measured[1] + measured[0] * (record_overhead(sys_flag) + 1)
    arguments = (9, 7, cut, 0, shared, sys_flag, 5, born, 6, 1)
    result, *_ = both(
        "put_batch", max(0, 9 + size + more), 0, {"store_host": store}, arguments, queue_id=3
    )
    if measured is not None and more >= 0:
        assert result[:2] == (len(cut), 9 + size)


def test_a_long_batch_is_written_in_stretches() -> None:
    """The same bytes in both, whatever stretches it takes."""
    for items in (
        [BatchItem(n, b"", b"UNIQ_KEY\x01%d\x02TAGS\x01%d" % (n, n % 7)) for n in range(3000)],
        [BatchItem(n, bytes([n % 256]) * 100_000, "TAGS\x01é".encode()) for n in range(17)],
    ):
        data, shared = encode_batch(items), b"CLUSTER\x01c"
        body = memoryview(b"frame" + data)[5:]  # where it was received, without a copy
        count, contents = batch_size(body, shared) or (0, 0)
        assert count == len(items)
        assert compiled.batch_size(data, shared) == pure_size(body, shared) == (count, contents)
        logs, stretches = [], []
        for kind in KINDS:
            log, at, position, number = (
                bytearray(contents + count * (record_overhead(0) + 1)),
                0,
                0,
                0,
            )
            found = ends(kind, log, bytearray(), queue_id=3)
            steps = []
            while at < len(body):
                at, position, *written = kind["put_batch"](
                    *found, None, position, number, body, at, shared, 0, 5, bytes(8), 6, 1
                )
                number += len(written[0]) // 20
                steps.append((at, position, *written))
            assert position == len(log)
            logs.append(log)
            stretches.append(steps)
        assert logs[0] == logs[1]
        assert stretches[0] == stretches[1]
        assert len(stretches[0]) > 2
        assert all(first[0] < second[0] for first, second in pairwise(stretches[0]))


@given(
    st.lists(item, min_size=1, max_size=6),
    property_bytes,
    st.sampled_from([0, V6_BORN]),
    st.integers(0, 800),
    st.integers(0, 3),
)
def test_batches_of_entries(
    items: list[BatchItem], shared: bytes, sys_flag: int, room: int, before: int
) -> None:
    """They stop in front of the first one that does not fit, and nothing is behind it."""
    body, born = encode_batch(items), bytes(20 if sys_flag & V6_BORN else 8)
    end = {"limit": 9 + room} | ENTRIES
    arguments = (9, before, body, 0, shared, sys_flag, 5, born, 6, 1)
    (at, position, units), written, _, left = both(
        "put_batch", 9 + room, 0, end, arguments, queue_id=3
    )
    fitting, place = 0, 9
    for number in range(len(items)):
        size = record_overhead(sys_flag) + 1 + item_size(body, fitting, shared)
        if place + 48 + size > 9 + room:
            break
        head = entry_head(7 + before + number, 3, 1000 + place, size)
        assert written[place : place + 48] == head
        message = decode_record(written[place + 48 : place + 48 + size])
        assert message.commit_log_offset == 1000 + place + 48
        assert message.queue_offset == before + number
        fitting += 22 + len(items[number].body) + len(items[number].properties)
        place += 48 + size
    assert (at, position, left[0][8]) == (fitting, place, 7)
    assert written[place:] == b"\xaa" * (9 + room - place)
    assert len(units) % 20 == 0


@given(texts, st.sampled_from([b"CLUSTER\x01c", b"CLUSTER\x01\xc3\xa9"]))
def test_property_strings(text: str, pair: bytes) -> None:
    assert outcome(compiled.stored_properties, pair, text) == outcome(pure_properties, pair, text)


@pytest.mark.parametrize(
    "text", ["\ud800", "DELAY\x013\x02a\x01\ud800", "UNIQ_KEY\x01a\x02TAGS\x01é\x02WAIT\x01true"]
)
def test_odd_text(text: str) -> None:
    assert outcome(compiled.stored_properties, b"", text) == outcome(pure_properties, b"", text)
