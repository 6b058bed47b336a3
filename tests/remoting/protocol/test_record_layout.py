"""Where the fields of a record are; the documentation has the same."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record.layout import (
    BATCH_ITEM,
    HEADS,
    QUEUE_UNIT,
    RecordHead,
    glance,
    host_sizes,
    offset_of,
)

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "store-format.md"
MADE = runpy.run_path(str(REPOSITORY / "docs" / "layout.py"))


def test_the_table_in_the_documentation_is_made_from_the_layout() -> None:
    assert MADE["record_table"]() in DOCUMENT.read_text()


def test_heads_of_all_hosts() -> None:
    assert {kind: head.size for kind, head in HEADS.items()} == {
        0: 88,
        0x10: 100,
        0x20: 100,
        0x30: 112,
    }
    assert [host_sizes(kind) for kind in HEADS] == [(8, 8), (20, 8), (8, 20), (20, 20)]
    assert (QUEUE_UNIT.format, BATCH_ITEM.format) == (">qiq", ">IIIiI")


@pytest.mark.parametrize("kind", HEADS)
def test_every_field_is_where_it_is_said_to_be(kind: int) -> None:
    values = [
        host_sizes(kind)[number == 11] * bytes([number]) if number in (9, 11) else number
        for number in range(15)
    ]
    packed = HEADS[kind].pack(*values)
    ends = [offset_of(name, kind) for name in RecordHead._fields[1:]] + [len(packed)]
    for name, value, end in zip(RecordHead._fields, values, ends, strict=True):
        field = packed[offset_of(name, kind) : end]
        assert field == value if isinstance(value, bytes) else int.from_bytes(field, "big") == value
    with pytest.raises(KeyError):
        offset_of("color")


def test_a_glance_passes_over_the_other_fields() -> None:
    packed = HEADS[0].pack(*(b"x" * 8 if number in (9, 11) else number for number in range(15)))
    assert glance("magic", "phy_offset", "store_host", "body_size").unpack_from(packed) == (
        1,
        6,
        b"x" * 8,
        14,
    )


def test_c_has_the_same_numbers() -> None:
    assert MADE["HEADER"].read_text() == MADE["c_header"]()
    lines = dict(
        line.split(maxsplit=2)[1:]
        for line in MADE["c_header"]().splitlines()
        if line.startswith("#define")
    )
    assert {name: int(lines[f"RECORD_{name.upper()}_AT"]) for name in RecordHead._fields} == {
        name: offset_of(name) for name in RecordHead._fields
    }
    assert lines["RECORD_MAGIC"] == "0xdaa320a7u"
