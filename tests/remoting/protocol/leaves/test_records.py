"""All records of a buffer: compiled, and one after the other in Python."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.leaves import pure_index
from aiorocketmq.remoting.protocol.message.index_keys import topic_prefix
from aiorocketmq.remoting.protocol.record import (
    NewRecord,
    Reason,
    Records,
    encode_record,
    read_messages,
    scan,
    units,
)

from ..test_record import fields, sample
from ..test_record_scan import START, log_of, logs
from ..test_record_verdict import V6, long_record, with_zeros
from .both import compiled_leaves, outcome

compiled = compiled_leaves()
pure = leaves.TWINS["scan_columns"]
pure_runs = leaves.TWINS[units.queue_runs.__name__]


def same(*arguments: Any) -> Any:
    """What both return, or raise."""
    arguments = (*arguments, None) if len(arguments) == 6 else arguments
    found = outcome(compiled.scan_columns, *arguments)
    assert found == outcome(pure, *arguments)
    return found


@given(logs(), st.sampled_from([None, START]), st.integers(0, 600), st.booleans(), st.booleans())
def test_logs_of_all_kinds(
    data: bytes, place: int | None, more: int, check: bool, any_version: bool
) -> None:
    same(data, 0, place, len(data) + more, check, any_version)


@given(st.binary(max_size=400), st.integers(0, 400), st.booleans())
def test_anything_at_all(data: bytes, at: int, check: bool) -> None:
    same(data, min(at, len(data)), None, len(data), check, True)
    same(b"\0\0\0\x5b\xda\xa3\x20\xa7" + data, 0, None, len(data), check, True)


@given(st.lists(fields, min_size=1, max_size=3), st.data())
def test_each_changed_byte(records: list[dict[str, Any]], data: st.DataObject) -> None:
    log = bytearray(log_of(records))
    for at in data.draw(st.lists(st.integers(0, len(log) - 1), min_size=1, max_size=4)):
        log[at] = data.draw(st.sampled_from([0, 1, 0x10, 0x30, 0x7F, 0x80, 0xFF]))
    for place in (None, START):
        same(bytes(log), 0, place, len(log), data.draw(st.booleans()), data.draw(st.booleans()))


@pytest.mark.parametrize(
    "record", [sample(phy_offset=START), V6, long_record(), with_zeros(1536, 1701)]
)
def test_every_end_of_a_buffer(record: bytes) -> None:
    for end in range(len(record) + 1):
        for left in (end, end + 1, len(record), 1 << 20, 2**63 - 1):
            same((record + record)[:end], 0, None, left, True, True)
    for at in range(len(record)):
        same(record + record, at, None, 1 << 20, True, False)


@pytest.mark.parametrize("begin", range(480, 560, 3))
def test_zeros_everywhere(begin: int) -> None:
    for end in (begin + 504, begin + 511, begin + 512, begin + 600, 1701):
        for more in (b"", bytes(300), bytes(400), bytes(346) + b"x"):
            for left in (len(more) + 1702, 4096):
                same(with_zeros(begin, end) + more, 0, 0, left, True, False)


@given(st.data(), logs(), st.booleans())
def test_stretches(data: st.DataObject, log: bytes, check: bool) -> None:
    """Anywhere in a buffer, also over its end."""
    buffer = log * 3 + data.draw(st.binary(max_size=5))
    edges = st.one_of(
        st.sampled_from([0, len(log), 2 * len(log), 3 * len(log)]), st.integers(0, len(buffer) + 9)
    )
    stretches = [sorted(pair) for pair in data.draw(st.lists(st.tuples(edges, edges), max_size=5))]
    arguments = buffer, [begin for begin, _ in stretches], [end for _, end in stretches], check
    assert outcome(compiled.stretch_columns, *arguments) == outcome(
        leaves.TWINS["stretch_columns"], *arguments
    )


def test_many_topics_and_kinds_of_buffers() -> None:
    """More rows and topics than there was room for at first; names that are no UTF-8, and become
    the same text."""
    data = b"".join(sample(topic=f"t{number * number % 700}", body=b"") for number in range(2000))
    names, columns = same(data, 0, None, len(data), True, False)
    assert (len(names), len(columns[0])) == (
        len({number * number % 700 for number in range(2000)}),
        2000,
    )
    for kind in (bytearray, memoryview):
        assert compiled.scan_columns(kind(data), 0, None, len(data), True, False, None) == (
            names,
            columns,
        )
        assert pure(kind(data), 0, None, len(data), True, False, None) == (names, columns)
    torn = b"".join(
        sample(topic="?" * 3).replace(b"???", name) for name in (b"a\xffb", b"abc", b"a\xfeb")
    )
    assert same(torn, 0, None, len(torn), True, False)[0] == ["a\ufffdb", "abc"]


def test_a_long_buffer() -> None:
    data = b"".join(sample(body=bytes(100_000)) for _ in range(30))
    assert len(same(data, 0, None, len(data), True, False)[1][0]) == 30


def test_what_cannot_be() -> None:
    same(b"", 0, None, 0, True, False)
    same(b"", 0, START, 2**63 - 1, True, False)
    assert outcome(compiled.scan_columns, "text", 0, None, 4, True, False, None)[0] is TypeError  # type: ignore[index]
    assert scan(encode_record(NewRecord("T", 0, b"", b"", **HEAD))).verdict.reason is Reason.NOTHING


HEAD: dict[str, Any] = {
    "queue_offset": 0, "phy_offset": 0, "sys_flag": 0, "born_timestamp": 0, "born_host": bytes(8),
    "store_timestamp": 0,
    "store_host": bytes(8),
}  # fmt: skip


# -- what queues and index get of them

texts = st.sampled_from(
    [b"", b"k", b"\xc3\xbc", b"\xff", b"a b  c", b"x" * 40, b"\1", b" ", b"0123456789abcdef"]
)
pairs = st.tuples(st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"XTAGS", b"", b"A"]), texts)
strings = st.lists(pairs.map(b"\1".join), max_size=5).map(b"\2".join) | st.binary(max_size=30)


@st.composite
def columns(draw: st.DrawFn) -> Records:
    """Records of some queues."""
    offsets = st.integers(0, 3) | st.sampled_from([2**63 - 1, -(2**63)])
    records = [
        record | {"topic": draw(st.sampled_from("ab")),
        "queue_id": draw(st.sampled_from([0, 1, -1])),
                  "queue_offset": draw(offsets), "properties": draw(strings)}
        for record in draw(st.lists(fields, max_size=8))
    ]  # fmt: skip
    return scan(log_of(records), START).records


@given(columns())
def test_units_and_entries(records: Records) -> None:
    assert compiled.queue_runs(records) == pure_runs(records)
    prefixes = [topic_prefix(name) for name in records.names]
    for first, most in ((0, 100), (0, 2), (1, 1), (len(records), 3)):
        arguments = records, prefixes, first, most
        assert compiled.record_entries(*arguments) == pure_index.record_entries(*arguments)


def test_many_queues() -> None:
    records = scan(
        b"".join(
            sample(queue_id=number * number % 700, queue_offset=number) for number in range(2000)
        )
    ).records
    runs, order, units = compiled.queue_runs(records)
    assert (runs, order, units) == pure_runs(records)
    assert [runs[0][2], runs[-1][3], len(order), len(units)] == [0, 2000, 2000, 40_000]


def test_columns_that_do_not_belong_together_are_refused() -> None:
    records = scan(sample(properties=b"KEYS\1k") * 3).records
    for name in ("sizes", "topics", "properties_at"):
        short = msgspec.structs.replace(records, **{name: getattr(records, name)[:2]})
        with pytest.raises(ValueError, match="column"):
            compiled.queue_runs(short)
        with pytest.raises(ValueError, match="column"):
            compiled.record_entries(short, [0], 0, 9)
    cut = msgspec.structs.replace(records, data=records.data[:-1])
    for leaf, more in ((compiled.queue_runs, ()), (compiled.record_entries, ([0], 0, 9))):
        with pytest.raises(ValueError, match="do not lie in the data"):
            leaf(cut, *more)
    with pytest.raises(IndexError):
        compiled.record_entries(records, [], 0, 9)


# -- messages of a pull


def same_messages(data: bytes, at: int, until: int) -> None:
    read = leaves.TWINS["read_records"]

    def fields_of(*fields: object) -> object:
        return fields

    assert compiled.read_records(data, at, until, fields_of, "b") == read(
        data, at, until, fields_of, "b"
    )


@given(logs(), st.integers(0, 300), st.integers(0, 2000))
def test_messages_of_logs_of_all_kinds(data: bytes, at: int, until: int) -> None:
    same_messages(data, 0, len(data) + 1)
    same_messages(data, min(at, len(data)), until)


@pytest.mark.parametrize(
    "record", [sample(), V6, long_record(), with_zeros(1536, 1701), sample(topic="a\0b")]
)
def test_messages_at_every_end(record: bytes) -> None:
    for end in range(2 * len(record) + 1):
        same_messages((record + record)[:end], 0, 1 << 30)
        same_messages(record + record, 0, end)


def test_a_long_pull_is_read_in_several_steps() -> None:
    records = [sample(queue_offset=number, body=bytes(number % 700)) for number in range(2000)]
    data = b"".join(records)
    messages, end = read_messages(data, "b")
    assert [message.queue_offset for message in messages] == [*range(2000)]
    assert end == len(data) > 3 * (256 << 10)
    broken = data[:-1]
    messages, end = read_messages(broken, "b", len(records[0]))
    assert (len(messages), end) == (1998, len(data) - len(records[-1]))
