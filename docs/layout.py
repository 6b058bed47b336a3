"""What is made from ``remoting/protocol/record/layout.py``: ``python docs/layout.py`` writes the
numbers for C anew, and prints the table that stands in ``store-format.md``. Tests hold both equal
to the layout.
"""

from __future__ import annotations

import itertools
import struct
import sys
from pathlib import Path
from typing import Final

from aiorocketmq.remoting.protocol.message.sys_flag import UNQUEUED, MessageSysFlag
from aiorocketmq.remoting.protocol.record.entry import (
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_MAGIC,
    INDEX_UNIT,
    EntryHead,
    IndexUnit,
)
from aiorocketmq.remoting.protocol.record.layout import (
    BATCH_ITEM,
    BLANK_MAGIC,
    BLANK_SIZE,
    FIELDS,
    FILLER_SIZE,
    HEADS,
    MAGIC,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    MOST_PHY_OFFSET,
    MOST_SIZE,
    QUEUE_UNIT,
    BatchItemHead,
    QueueUnit,
    host_sizes,
    offset_of,
)

HEADER: Final = Path(__file__).resolve().parents[1] / "remoting/protocol/leaves/record_layout.h"
BEHIND_HEAD: Final = (
    ("n", "body", "as the producer sent it, perhaps compressed"),
    ("1", "topicLength", "t, 1..127"),
    ("t", "topic", "UTF-8"),
    ("2", "propertiesLength", "p, 0..32767"),
    ("p", "properties", "`name 01 value 02` repeated"),
)


def record_table() -> str:
    """The record as a table of the documentation."""
    lines, at, hosts = ["| Offset | Size | Field | |", "| --- | --- | --- | --- |"], 0, ""
    for field in FIELDS:
        size = field.code if field.code in "BS" else str(struct.calcsize(">" + field.code))
        lines.append(f"| {at}{hosts} | {size} | {field.wire_name} | {field.meaning} |")
        at += int(size) if size.isdigit() else 0
        hosts += "" if size.isdigit() else f"+{size}"
    lines += [f"| | {size} | {name} | {meaning} |" for size, name, meaning in BEHIND_HEAD]
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


def c_header() -> str:
    """``leaves/record_layout.h``: the same numbers for C. Offsets behind a host are those with IPv4
    hosts."""
    numbers = {
        "RECORD_MAGIC": f"{MAGIC:#x}u",
        "RECORD_MAGIC_V2": f"{MAGIC_V2:#x}u",
        "RECORD_BLANK_MAGIC": f"{BLANK_MAGIC:#x}u",
        "RECORD_BLANK_SIZE": BLANK_SIZE,
        "RECORD_MIN_SIZE": MIN_RECORD_SIZE,
        "RECORD_HEAD_SIZE": HEADS[0].size,
        "RECORD_BORN_HOST_V6": int(MessageSysFlag.BORN_HOST_V6),
        "RECORD_STORE_HOST_V6": int(MessageSysFlag.STORE_HOST_V6),
        "RECORD_PREPARED": UNQUEUED,
        "RECORD_V6_MORE": host_sizes(MessageSysFlag.BORN_HOST_V6)[0] - host_sizes(0)[0],
        **{f"RECORD_{field.name.upper()}_AT": offset_of(field.name) for field in FIELDS},
        "QUEUE_UNIT_SIZE": QUEUE_UNIT.size,
        **_places("QUEUE_UNIT", QueueUnit._fields, QUEUE_UNIT),
        "QUEUE_FILLER_SIZE": FILLER_SIZE,
        "QUEUE_MOST_SIZE": MOST_SIZE,
        "QUEUE_MOST_PHY_OFFSET": f"{MOST_PHY_OFFSET}ll",
        "BATCH_ITEM_HEAD_SIZE": BATCH_ITEM.size,
        **_places("BATCH_ITEM", BatchItemHead._fields, BATCH_ITEM),
        "ENTRY_MAGIC": f"{ENTRY_MAGIC}u",
        "ENTRY_BLANK_MAGIC": f"{ENTRY_BLANK_MAGIC & 0xFFFFFFFF:#x}u",
        "ENTRY_HEAD_SIZE": ENTRY_HEAD.size,
        **_places("ENTRY", EntryHead._fields, ENTRY_HEAD),
        "INDEX_UNIT_SIZE": INDEX_UNIT.size,
        **_places("INDEX_UNIT", IndexUnit._fields, INDEX_UNIT),
    }
    lines = [f"#define {name} {value}" for name, value in numbers.items()]
    return "\n".join(
        (
            "/* Made by docs/layout.py from remoting/protocol/record/layout.py. */",
            "#pragma once",
            "",
            *lines,
            "",
        )
    )


def _places(table: str, names: tuple[str, ...], layout: struct.Struct) -> dict[str, int]:
    """Where the fields of a Struct begin, which has one letter for each."""
    sizes = [struct.calcsize(f">{code}") for code in layout.format[1:]]
    places = itertools.accumulate(sizes, initial=0)
    return {f"{table}_{name.upper()}_AT": at for name, at in zip(names, places, strict=False)}


if __name__ == "__main__":
    HEADER.write_text(c_header())
    sys.stdout.write(record_table())
