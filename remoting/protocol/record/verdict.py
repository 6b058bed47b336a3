"""Whether bytes are a record, and if not, why: the one place that decides, for whoever reads
records.

A record proves itself by its magic, by saying where it lies, by lengths that make up its size, and
by the CRC of its body. No CRC covers topic and properties. A disk that lost power loses whole
sectors, which hold zeros then: a topic with zero bytes, and properties with a sector of them, are
damage as well.

``take_apart`` finds out where the parts of a record lie and raises ``NoRecord`` with the
``Verdict``. It wants to know all that there is to know: where the bytes lie, and what follows them.
Who knows less believes more, never the other way round: a client does not see whether the rest of a
sector is lost too.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, NamedTuple

from .crc import BodyCrc, body_crc
from .layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    HEADS,
    MAGIC,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SYS_FLAG_BYTE,
    V6_HOSTS,
    RecordHead,
    glance,
    head_struct,
    offset_of,
    size_and_magic,
)


class Reason(Enum):
    """Why bytes are no record, or not the one that was written."""

    MORE = "it goes on behind what is shown"
    BLANK = "a blank: the file ends"
    NOTHING = "zeros, or too few bytes for anything"
    MAGIC = "another magic"
    SIZE = "a size that cannot be"
    PLACE = "it belongs to another place"
    LENGTHS = "body, topic and properties do not make up its size"
    TOPIC = "zeros in the topic"
    SECTOR = "a sector of zeros in the properties"
    CRC = "another body"
    HEAD = "the head of an entry that its record does not fit"
    INDEX = "an index that is not the next one"
    TERM = "an older term"


class Verdict(NamedTuple):
    """Why no record, or no intact one, begins at a place."""

    reason: Reason
    problem: str
    """For people."""
    byte: int = 0
    """Which one is wrong, as far as one can tell, counted from that place."""
    size: int = 0
    """Of the record if its lengths agree: it is whole then, only not what was written. Of a blank:
    what it passes over. Else 0: nobody can tell."""
    needed: int = 0
    """MORE: so many bytes have to be shown, from that place on, to see more of it."""


class RecordError(ValueError):
    """Something is no record, or cannot be made one."""


class NoRecord(RecordError):
    """The bytes at a position of a buffer are no intact record."""

    def __init__(self, verdict: Verdict, position: int) -> None:
        super().__init__(verdict, position)
        self.verdict: Final = verdict
        self.position: Final = position

    def __str__(self) -> str:
        where = f"at byte {self.position}: " if self.position else ""
        return where + self.verdict.problem


class Parts(NamedTuple):
    """What ``take_apart`` finds of a record. Positions are those of the buffer."""

    at: int
    size: int
    phy_offset: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    body_at: int
    body_size: int
    topic: str
    properties: bytes


class _Topics(dict[bytes, str]):
    """Topics as text; they are few. Empty for a name with zero bytes, which no broker accepts."""

    def __missing__(self, name: bytes) -> str:
        topic = "" if b"\0" in name else name.decode("utf-8", "replace")
        if len(self) < _MOSTTOPICS:
            self[name] = topic
        return topic


_MOSTTOPICS: Final = 10_000
TOPICS: Final = _Topics()
"""By their bytes."""
_GLANCED: Final = (
    "store_size", "magic", "body_crc", "queue_id", "queue_offset", "phy_offset", "sys_flag",
    "store_timestamp", "body_size"
)  # fmt: skip
glance_v4: Final = glance(*_GLANCED).unpack_from
"""What a reader needs of a record's head, with IPv4 hosts."""
_HEAD_SIZE: Final = HEADS[0].size
_MAGIC_AT: Final = offset_of("magic")
_PHY_OFFSET_AT: Final = offset_of("phy_offset")
SECTOR: Final = 512
"""What a disk loses at once."""
_MIN_ZEROS: Final = 8
"""Fewer zeros of a sector within the properties could be the user's."""
_MOST_BEHIND_BODY: Final = {MAGIC: 0xFF + 2 + 0xFFFF, MAGIC_V2: 0xFFFF + 2 + 0xFFFF}
"""Topic and properties: a record with more of that is none, and nobody should wait for the rest of
it."""


def take_apart(
    data: Any,
    at: int,
    place: int | None,
    left: int,
    crc: BodyCrc | None = body_crc,
    any_version: bool = False,
    *,
    contents: bool = True,
) -> tuple[int, int, int, int, int, int, int, int, int, str, bytes]:
    """The fields of ``Parts`` of the record that begins at byte ``at`` of ``data``, of any kind.

    ``place``: the physical offset of that byte; ``None``: this is no log, and the record is
    believed where it says it lies. ``left``: so many bytes there are from ``at`` on, shown in
    ``data`` or not (in the file, that is). ``crc``: how to find the CRC, ``None``: not at all.
    ``any_version``: also a record of RocketMQ 5. Without ``contents`` it need only be whole
    (``Verdict.size``). Raises NoRecord.
    """
    if len(data) - at < MIN_RECORD_SIZE:
        raise NoRecord(_of_few(data, at, left), at)
    size, magic, own_crc, queue_id, queue_offset, phy_offset, sys_flag, timestamp, body_size = (
        glance_v4(data, at)
    )
    _check_head(data, at, size, magic, phy_offset, place, left, any_version)
    body_at = at + _HEAD_SIZE
    if sys_flag & V6_HOSTS:
        timestamp, body_size, body_at = _behind_hosts(data, at, size, sys_flag)
    topic_at = body_at + body_size + (1 if magic == MAGIC else 2)
    topic_end = _topic_end(data, at, size, magic, body_at, topic_at)
    topic, properties = (
        TOPICS[bytes(data[topic_at:topic_end])],
        bytes(data[topic_end + 2 : at + size]),
    )
    if contents:
        if place is not None and not topic and topic_at < topic_end:
            problem = "the topic has zero bytes in it: the record was not written to its end"
            raise NoRecord(Verdict(Reason.TOPIC, problem, topic_at - at, size), at)
        if (
            b"\0" in properties
            and (lost := _of_zeros(data, at, phy_offset, topic_end + 2, at + size, left))
            is not None
        ):
            raise NoRecord(lost, at)
        if crc is not None and (found := crc(data[body_at : body_at + body_size])) != own_crc:
            problem = f"the body has the CRC {found:#010x}, the record says {own_crc:#010x}"
            raise NoRecord(Verdict(Reason.CRC, problem, body_at - at, size), at)
    topic = topic or str(data[topic_at:topic_end], "utf-8", "replace")
    return (
        at,
        size,
        phy_offset,
        queue_id,
        queue_offset,
        sys_flag,
        timestamp,
        body_at,
        body_size,
        topic,
        properties,
    )


def _check_head(
    data: Any,
    at: int,
    size: int,
    magic: int,
    phy_offset: int,
    place: int | None,
    left: int,
    any_version: bool,
) -> None:
    """What proves that a record begins here at all."""
    if magic != MAGIC and not (any_version and magic == MAGIC_V2):
        raise NoRecord(_of_magic(data, at, size, magic, left, place), at)
    if not MIN_RECORD_SIZE <= size <= left:
        where = "" if place is None else " in the file"
        problem = f"the record says it is {size} bytes long, {left} are left{where}"
        raise NoRecord(Verdict(Reason.SIZE, problem), at)
    if place is not None and phy_offset != place:
        own = size_by_lengths(data, at)
        problem = f"the record says it is at {phy_offset}, it is at {place}"
        raise NoRecord(
            Verdict(Reason.PLACE, problem, _PHY_OFFSET_AT, own if own == size else 0), at
        )


def _behind_hosts(data: Any, at: int, size: int, sys_flag: int) -> tuple[int, int, int]:
    """Store timestamp, size of the body and where that begins, with hosts of IPv6."""
    head = head_struct(sys_flag)
    if head.size > size:
        problem = f"a head with hosts of IPv6 is {head.size} bytes long, in a record of {size}"
        raise NoRecord(Verdict(Reason.LENGTHS, problem, SYS_FLAG_BYTE), at)
    if head.size > len(data) - at:
        raise NoRecord(_more(head.size), at)
    fields = RecordHead._make(head.unpack_from(data, at))
    return fields.store_timestamp, fields.body_size, at + head.size


def _topic_end(data: Any, at: int, size: int, magic: int, body_at: int, topic_at: int) -> int:
    """Where the topic ends, if body, topic and properties make up the size."""
    end, shown = at + size, len(data)
    body_size = topic_at - body_at - (1 if magic == MAGIC else 2)
    if body_size < 0 or topic_at + 2 > end:
        problem = f"the body is said to be {body_size} bytes long, in a record of {size}"
        raise NoRecord(Verdict(Reason.LENGTHS, problem, body_at - 4 - at), at)
    if topic_at > shown:
        if end - topic_at > _MOST_BEHIND_BODY[magic]:
            problem = (
                f"the body is said to be {body_size} bytes long, which is too few in a record of "
                f"{size}"
            )
            raise NoRecord(Verdict(Reason.LENGTHS, problem, body_at - 4 - at), at)
        raise NoRecord(_more(topic_at - at), at)
    topic_size = int.from_bytes(data[body_at + body_size : topic_at], "big")
    topic_end = topic_at + topic_size
    if topic_end + 2 > end:
        problem = (
            f"the topic is said to be {topic_size} bytes long, which reaches over the end of the "
            "record"
        )
        raise NoRecord(Verdict(Reason.LENGTHS, problem, body_at + body_size - at), at)
    if topic_end + 2 > shown:
        raise NoRecord(_more(topic_end + 2 - at), at)
    made = topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) - at
    if made != size:
        problem = (
            f"body, topic and properties make {made} bytes, the record says it is {size} bytes long"
        )
        raise NoRecord(Verdict(Reason.LENGTHS, problem, topic_end - at), at)
    if end > shown:
        raise NoRecord(_more(size), at)
    return topic_end


def verdict_of(
    data: Any, at: int = 0, place: int | None = None, left: int | None = None, **how: Any
) -> Verdict | None:
    """The same question for somebody who wants nothing but the verdict; None: it is intact as far
    as can be proved."""
    try:
        take_apart(data, at, place, len(data) - at if left is None else left, **how)
    except NoRecord as error:
        return error.verdict
    return None


def problem_of(data: Any, start: int, size: int, phy_offset: int) -> str | None:
    """What is wrong with the record ``data[start:start + size]``, which should lie at
    ``phy_offset``; None when it is intact as far as can be proved. ``data``, bytes or a mapping,
    must reach that far.
    """
    try:
        _, own_size, *_ = take_apart(data, start, phy_offset, len(data) - start)
    except NoRecord as error:
        return error.verdict.problem
    return (
        None
        if own_size == size
        else f"the record says it is {own_size} bytes long, its queue says {size}"
    )


def size_by_lengths(data: Any, at: int) -> int:
    """How long a record is by the lengths of its body, topic and properties, whatever it says; 0
    when they lead out of ``data``. So a record tells its size twice.
    """
    found = properties_at(data, at, len(data))
    return found + int.from_bytes(data[found - 2 : found], "big") - at if found else 0


def properties_at(data: Any, at: int, stop: int) -> int:
    """Where the properties of the record ``data[at:stop]`` begin by the lengths of body and topic;
    0 when these lead out of it.
    """
    if stop - at < MIN_RECORD_SIZE or stop - at < (
        head := HEADS[data[at + SYS_FLAG_BYTE] & V6_HOSTS].size
    ):
        return 0
    topic_at = at + head + int.from_bytes(data[at + head - 4 : at + head], "big", signed=True)
    if not at + head <= topic_at < stop:
        return 0
    found: int = topic_at + 3 + data[topic_at]
    return found if found <= stop else 0


def _more(needed: int, size: int = 0) -> Verdict:
    return Verdict(Reason.MORE, f"it takes {needed} bytes to see what this is", 0, size, needed)


def _of_few(data: Any, at: int, left: int) -> Verdict:
    """Fewer bytes than any record has."""
    shown = len(data) - at
    size, magic = size_and_magic(data, at) if shown >= BLANK_SIZE else (0, 0)
    if magic == BLANK_MAGIC:
        return _blank(size, left)
    if shown < left:
        return _more(min(MIN_RECORD_SIZE if shown >= BLANK_SIZE else BLANK_SIZE, left))
    if not left:
        return Verdict(
            Reason.NOTHING, "the file ends without the blank record that leads to the next one"
        )
    if not any(data[at : at + left]):
        return Verdict(Reason.NOTHING, "zeros where a record should begin")
    return Verdict(
        Reason.NOTHING, f"{left} bytes that are neither a record nor the blank at the end of a file"
    )


def _of_magic(data: Any, at: int, size: int, magic: int, left: int, place: int | None) -> Verdict:
    """No record of this version."""
    if magic == BLANK_MAGIC and place is not None:
        return _blank(size, left)
    if not any(data[at : at + MIN_RECORD_SIZE]) and place is not None:
        return Verdict(Reason.NOTHING, "zeros where a record should begin")
    if magic == MAGIC_V2:
        return Verdict(
            Reason.MAGIC,
            f"a record of RocketMQ 5 (magic {magic:#x}), which 4.9 cannot read",
            _MAGIC_AT,
        )
    return Verdict(
        Reason.MAGIC, f"the magic is {magic:#010x}, a record has {MAGIC:#010x}", _MAGIC_AT
    )


def _blank(size: int, left: int) -> Verdict:
    return Verdict(
        Reason.BLANK,
        f"the blank at the end of the file says {size} bytes, {left} are left",
        0,
        size,
    )


def _of_zeros(data: Any, at: int, place: int, begin: int, end: int, left: int) -> Verdict | None:
    """Whether zeros in the properties at [begin, end) are sectors that were lost: those hold
    nothing else.

    Of a sector that goes on behind what is shown nobody knows; where there is more to be shown,
    more is asked for.
    """
    for start in range(begin - (place + begin - at) % SECTOR, end, SECTOR):
        stop = start + SECTOR
        if min(end, stop) - max(begin, start) < _MIN_ZEROS or any(data[max(at, start) : stop]):
            continue
        if stop <= len(data):
            problem = (
                "a sector of zeros in its properties: it was not written to its end, or lost since"
            )
            return Verdict(Reason.SECTOR, problem, max(begin, start) - at, end - at)
        if stop - at <= left:
            return _more(stop - at, end - at)
    return None
