"""Heads, units and blanks: the numbers of dledger.md §4."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.record.entries import entry_units
from aiorocketmq.remoting.protocol.record.entry import (
    ENTRY_HEAD,
    INDEX_UNIT,
    entry_blank,
    entry_head,
    entry_start,
    position_of_next,
)

from .entry_logs import START, changed_head, entries_of


def test_where_the_fields_are() -> None:
    head = entry_head(0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x31)
    assert head.hex() == (
        "00000001" "00000061" "0102030405060708" "1112131415161718" "2122232425262728"
        "00000000" "00000000" "00000000" "00000031"
    )  # fmt: skip
    assert (ENTRY_HEAD.size, INDEX_UNIT.size) == (48, 32)
    assert INDEX_UNIT.pack(1, 2, 3, 4, 5).hex() == (
        "00000001" "0000000000000002" "00000003" "0000000000000004" "0000000000000005"
    )  # fmt: skip
    assert entry_start(entry_blank(2416), 0) == (-1, 2416)


@pytest.mark.parametrize(
    ("position", "size", "placed"),
    [(0, 92, 0), (0, 93, 100), (8, 84, 8), (8, 85, 100), (200, 92, 200), (150, 43, 200)],
)
def test_the_rule_of_the_blank(position: int, size: int, placed: int) -> None:
    """At least 8 bytes are left behind an entry (fileEndPadding)."""
    assert position_of_next(position, size, 100) == placed


def test_units_of_entries() -> None:
    log = entries_of([b"a", b"bb", b"ccc"], index=5, terms=[1, 1, 4])
    units, end = entry_units(log, 0, len(log), 5, START)
    assert end == len(log)
    size = ENTRY_HEAD.unpack_from(log)[1]
    assert [*INDEX_UNIT.iter_unpack(units)] == [
        (1, START, size, 5, 1),
        (1, START + size, size + 1, 6, 1),
        (1, START + 2 * size + 1, size + 2, 7, 4),
    ]
    assert entry_units(log, 0, len(log) - 1, 5, START)[0] == units[:64]
    assert entry_units(log, 0, len(log), 6, START) == (b"", 0)
    assert entry_units(log, 0, len(log), 5, START + 1) == (b"", 0)
    assert entry_units(log + entry_blank(20), 0, len(log) + 8, 5, START) == (units, len(log))
    for other in ({"magic": 2}, {"size": 100}, {"size": -1}, {"size": 1 << 30}, {"pos": 0}):
        assert entry_units(changed_head(log, **other), 0, len(log), 5, START) == (b"", 0)


@pytest.mark.parametrize("place", [(-1, 5), (3, 2), (0, 1000)])
def test_what_lies_outside(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="do not lie in the data"):
        entry_units(bytes(100), *place, 0, 0)
