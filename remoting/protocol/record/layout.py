"""Where everything lies in a stored record, in a unit of a consume queue and in an item of a batch
(big-endian).

A record is an element of the commit log, and of the body of a pull, query or view response: the
fields of ``RecordHead``, then what has a length of its own (the table in ``docs/store-format.md``
is made from here; classes CommitLog, MessageDecoder). Nobody else knows a number out of it: Python
asks for ``offset_of`` or ``glance``, and C has ``record_layout.h``, which ``docs/layout.py`` makes.

A record never crosses the end of a file of the commit log. The rest of a full file is a blank: how
many bytes are left (4) and the magic 0xCBD43194 (4); what lies behind that is undefined.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, get_type_hints

from ..message.sys_flag import MessageSysFlag

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
"""RocketMQ 5, where the topic's length takes two bytes."""
BLANK_MAGIC: Final = 0xCBD43194
BLANK_SIZE: Final = 8
MAX_TOPIC_BYTES: Final = 127
"""The length is a signed byte."""
V6_HOSTS: Final = MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6
"""The bits of a sysFlag that tell how long the hosts are."""
FILLER_SIZE: Final = 0x7FFFFFFF
"""Size in a queue unit that stands for a message that is not there."""
MOST_PHY_OFFSET: Final = 1 << 50
"""No commit log gets so long: a petabyte."""
MOST_SIZE: Final = 1 << 30
"""Nor a record."""

_HOST_V4: Final = 8
_HOST_V6: Final = 20


_SYS_FLAGS: Final = (
    "1 compressed, 2 several tags, 4 prepared, 8 commit, 12 rollback, 16 / 32 IPv6 hosts, 256.. "
    "compression"
)


class RecordHead(NamedTuple):
    """The fields in front of the body of a stored record. A host is a packed address and its port
    in 4 bytes: 8 or 20."""

    store_size: Annotated[int, "i", "totalSize", "of the whole record"]
    magic: Annotated[int, "I", "magic", "`DAA320A7`"]
    body_crc: Annotated[
        int, "I", "bodyCRC", "CRC-32 of the stored body without its highest bit, 0 for none"
    ]
    queue_id: Annotated[int, "i", "queueId", ""]
    flag: Annotated[int, "i", "flag", "the user's"]
    queue_offset: Annotated[
        int, "q", "queueOffset", "number in the queue; 0 for prepared and rolled back messages"
    ]
    phy_offset: Annotated[int, "q", "physicalOffset", "of this record in the commit log"]
    sys_flag: Annotated[int, "i", "sysFlag", _SYS_FLAGS]
    born_timestamp: Annotated[int, "q", "bornTimestamp", "ms, the producer's clock"]
    born_host: Annotated[bytes, "B", "bornHost", ""]
    store_timestamp: Annotated[int, "q", "storeTimestamp", "ms, the broker's clock"]
    store_host: Annotated[bytes, "S", "storeHost", ""]
    reconsume_times: Annotated[int, "i", "reconsumeTimes", ""]
    prepared_transaction_offset: Annotated[
        int, "q", "preparedTransactionOffset", "of the half message that this one commits"
    ]
    body_size: Annotated[int, "i", "bodyLength", "n"]


_LENGTHS_SIZE: Final = 3
"""Of topic and properties."""


class QueueUnit(NamedTuple):
    """An entry of a consume queue: message number n of a queue is at byte 20·n."""

    phy_offset: Annotated[int, "q"]
    size: Annotated[int, "i"]
    tags_code: Annotated[int, "q"]


class BatchItemHead(NamedTuple):
    """An item of the body of a batch send, in front of its body; behind that come the properties'
    length (2) and they."""

    total_size: Annotated[int, "I"]
    magic: Annotated[int, "I"]
    body_crc: Annotated[int, "I"]
    flag: Annotated[int, "i"]
    body_size: Annotated[int, "I"]


class _Field(NamedTuple):
    name: str
    code: str
    """As ``struct`` has it; ``B`` and ``S`` are the hosts."""
    wire_name: str = ""
    meaning: str = ""


def fields_of(table: type) -> tuple[_Field, ...]:
    """What the annotations of such a table say."""
    hints = get_type_hints(table, include_extras=True)
    return tuple(_Field(name, *hint.__metadata__) for name, hint in hints.items())


FIELDS: Final = fields_of(RecordHead)


def host_sizes(sys_flag: int) -> tuple[int, int]:
    """How long bornHost and storeHost are."""
    born = _HOST_V6 if sys_flag & MessageSysFlag.BORN_HOST_V6 else _HOST_V4
    return born, _HOST_V6 if sys_flag & MessageSysFlag.STORE_HOST_V6 else _HOST_V4


def _code(field: _Field, sys_flag: int) -> str:
    """The format of one field."""
    born, store = host_sizes(sys_flag)
    return {"B": f"{born}s", "S": f"{store}s"}.get(field.code, field.code)


HEADS: Final = {
    kind: struct.Struct(">" + "".join(_code(field, kind) for field in FIELDS))
    for kind in (
        0,
        int(MessageSysFlag.BORN_HOST_V6),
        int(MessageSysFlag.STORE_HOST_V6),
        int(V6_HOSTS),
    )
}
"""``RecordHead`` by the bits of ``V6_HOSTS``."""
QUEUE_UNIT: Final = struct.Struct(">" + "".join(field.code for field in fields_of(QueueUnit)))
BATCH_ITEM: Final = struct.Struct(">" + "".join(field.code for field in fields_of(BatchItemHead)))
BATCH_ITEM_OVERHEAD: Final = BATCH_ITEM.size + 2
"""Of an item without body and properties."""
MIN_RECORD_SIZE: Final = HEADS[0].size + _LENGTHS_SIZE


def head_struct(sys_flag: int) -> struct.Struct:
    """The Struct of ``RecordHead``, for the kind of hosts that the sysFlag tells."""
    return HEADS[sys_flag & V6_HOSTS]


def record_overhead(sys_flag: int) -> int:
    """Size of a record without body, topic and properties: 91, and 12 more for every IPv6 host."""
    return head_struct(sys_flag).size + _LENGTHS_SIZE


def offset_of(name: str, sys_flag: int = 0) -> int:
    """Where a field of ``RecordHead`` begins in a record; behind the hosts that depends on the
    sysFlag."""
    at = 0
    for field in FIELDS:
        if field.name == name:
            return at
        at += struct.calcsize(">" + _code(field, sys_flag))
    raise KeyError(name)


def glance(*names: str) -> struct.Struct:
    """A Struct of some fields of a record with IPv4 hosts, in their order; the others are passed
    over.

    >>> glance("store_size", "magic", "phy_offset").format
    '>iI20xq'
    """
    last = max(offset_of(name) for name in names)
    parts, skipped = [">"], 0
    for field in FIELDS:
        if offset_of(field.name) > last:
            break
        code = _code(field, 0)
        if field.name in names:
            parts += [f"{skipped}x" if skipped else "", code]
            skipped = 0
        else:
            skipped += struct.calcsize(">" + code)
    return struct.Struct("".join(parts))


SIZE_AND_MAGIC: Final = glance("store_size", "magic")
"""Tells a record from a blank and from nothing."""


def size_and_magic(data: Buffer, offset: int) -> tuple[int, int]:
    """The first two fields. ``data`` must hold 8 bytes there."""
    return SIZE_AND_MAGIC.unpack_from(data, offset)


SYS_FLAG_BYTE: Final = offset_of("sys_flag") + 3
"""The one that tells how long the hosts are."""
_STORED_AT: Final = {kind: offset_of("store_timestamp", kind) for kind in HEADS}
STORED_AT_SHOWN: Final = max(_STORED_AT.values()) + 8
"""So much of a record has to be there for ``stored_at`` to see it."""


def stored_at(data: Buffer, *, any_version: bool = False) -> int | None:
    """When the record was stored that ``data`` begins with; ``None`` when it does not begin with
    one."""
    view = memoryview(data)
    if len(view) < STORED_AT_SHOWN:
        return None
    magic = size_and_magic(view, 0)[1]
    if magic != MAGIC and not (any_version and magic == MAGIC_V2):
        return None
    at = _STORED_AT[view[SYS_FLAG_BYTE] & V6_HOSTS]
    return int.from_bytes(view[at : at + 8], "big", signed=True)


def blank_record(remaining: int) -> bytes:
    """The 8 bytes that end a commit log file in which ``remaining`` bytes are left."""
    return SIZE_AND_MAGIC.pack(remaining, BLANK_MAGIC)
