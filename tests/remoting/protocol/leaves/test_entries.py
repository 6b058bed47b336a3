"""Entries of a DLedger log: compiled, and in Python."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.bodies.stored_entries import StoredEntries, encode_entries
from aiorocketmq.remoting.protocol.record.entries import entry_units
from aiorocketmq.remoting.protocol.record.entry import ENTRY_HEAD, INDEX_UNIT

from ..record.entry_logs import START, entries_of, entry_logs
from .both import compiled_leaves, outcome

compiled = compiled_leaves()
orders = st.sampled_from([(-1, -1), (0, -1), (0, 1), (7, 0), (7, 3), (8, 0)])


def same(name: str, *arguments: Any) -> Any:
    """What both return, or raise."""
    found = outcome(getattr(compiled, name), *arguments)
    assert found == outcome(leaves.TWINS[name], *arguments)
    return found


@given(entry_logs(), st.sampled_from([None, START]), st.integers(0, 600), orders, st.booleans())
def test_logs_of_all_kinds(
    data: bytes, place: int | None, more: int, order: tuple[int, int], check: bool
) -> None:
    same("scan_columns", data, 0, place, len(data) + more, check, False, order)
    same("scan_columns", data, 0, place, len(data) + more, check, True, (-1, -1))


@given(st.binary(max_size=300), st.integers(0, 300), orders)
def test_anything_at_all(data: bytes, at: int, order: tuple[int, int]) -> None:
    same("scan_columns", data, min(at, len(data)), None, len(data), True, True, order)


def test_every_end_of_a_buffer() -> None:
    log = entries_of([b"first", b"second"])
    for end in range(len(log) + 1):
        for left in (end, end + 1, len(log), 2**63 - 1):
            same("scan_columns", log[:end], 0, START, left, True, False, (0, -1))
        same("entry_units", log, 0, end, 0, START)
        same("entries_json", log, 0, end, 0, START)
        same("entry_checksums", log, 0, end, 0, START)


@given(entry_logs(), st.integers(0, 9), st.integers(-9, 9))
def test_units(data: bytes, index: int, more: int) -> None:
    """Those that are read have the same."""
    units, end = same("entry_units", data, 0, len(data), index, START)
    text = same("entries_json", data, 0, len(data), index, START)
    stored = StoredEntries(data[:end], len(units) // INDEX_UNIT.size, index, START)
    assert stored.json() == text == bytes(encode_entries(list(stored)))
    assert units == b"".join(
        INDEX_UNIT.pack(entry.magic, entry.pos, entry.size, entry.index, entry.term)
        for entry in stored
    )
    crcs = [crc32(data[entry.pos - START :][: entry.size]) for entry in stored]
    assert same("entry_checksums", data, 0, len(data), index, START) == b"".join(
        struct.pack(">II", crc, crc ^ 0xFFFFFFFF) for crc in crcs
    )
    for name in ("entry_units", "entries_json", "entry_checksums"):
        same(name, data, 0, max(0, len(data) + more), index, START)
        same(name, bytearray(data), min(more, 0), len(data), index, START)


@given(st.binary(max_size=100))
def test_bodies_of_all_lengths(body: bytes) -> None:
    log = entries_of([body])
    text = same("entries_json", log, 0, len(log), 0, START)
    assert base64.b64decode(json.loads(text)[0]["body"]) == log[ENTRY_HEAD.size :]


i32, i64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
entries = st.builds(
    Entry, i64, i64, i64, st.binary(max_size=200), i32 | st.integers(0, 300), i32, i32, i32, i32
)


@given(st.lists(entries, max_size=5), st.integers(0, 1000) | i32)
def test_joined(pushed: list[Entry], most: int) -> None:
    """What was cut is joined again."""
    same("join_entries", pushed, most)
    log = entries_of([entry.body for entry in pushed])
    cut = StoredEntries(log, len(pushed), 0, START)
    assert same("join_entries", cut, len(log)) == (log, len(pushed))
    assert same("join_entries", tuple(cut), len(log) - 1)[1] == max(0, len(pushed) - 1)
    assert same("join_entries", iter(cut), 0) == (b"", 0)


def test_what_cannot_be_joined() -> None:
    assert outcome(compiled.join_entries, [Entry(0, 0, 0, None, 9, 1)], 99)[0] is TypeError  # type: ignore[arg-type, index]
    assert outcome(compiled.join_entries, [1], 99)[0] is AttributeError  # type: ignore[index]


def test_many_entries() -> None:
    """More rows than there was room for at first: indexes go on over that."""
    log = entries_of([b""] * 3000)
    names, columns = same("scan_columns", log, 0, START, len(log), True, False, (0, 1))
    assert (len(names), len(columns[0])) == (1, 3000)
    units, end = same("entry_units", memoryview(log), 0, len(log), 0, START)
    assert (len(units), end) == (32 * 3000, len(log))


def test_the_leaf_runs() -> None:
    assert leaves.KIND != "compiled" or entry_units is compiled.entry_units
