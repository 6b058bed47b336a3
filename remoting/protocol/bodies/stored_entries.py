"""Entries side by side, as a log has them, and pushes of them.

Between members of ours a push has its entries as they are, behind the JSON of the rest::

    0    4  n        bytes of the JSON, big-endian: the first byte is 0, that of a JSON body is "{"
    4    n  push     without entries
    4+n     entries  one or more, whole, consecutive, side by side

Who reads that says so when it answers a heartbeat (``HeartbeatResponse.takes_bytes``). Members of
the original, and ours of before, get the entries in the JSON, their records in base64. That is a
third more bytes, and objects that nobody needs at who stores them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, overload

import msgspec
from msgspec.structs import replace

from ..record.entries import entries_json, entry_units, join_entries
from ..record.entry import ENTRY_HEAD, INDEX_UNIT
from .codec import BodyError
from .dledger import DledgerBody, Entry, PushRequest, PushType, decode_dledger, encode_dledger

if TYPE_CHECKING:
    from typing_extensions import Buffer

_UNIT: Final = INDEX_UNIT.size
_LENGTH: Final = struct.Struct(">I")


class StoredEntries(Sequence[Entry]):
    """Consecutive entries as they lie side by side in a log: objects only for who asks for them,
    JSON without."""

    __slots__ = ("_count", "_found", "_place", "data", "first", "span")

    def __init__(self, data: Buffer, count: int, first: int, place: int) -> None:
        """``count`` whole entries and nothing else, from index ``first`` on; ``data`` is at
        ``place`` of the log, and is not changed any more."""
        self.data: Final = memoryview(data)
        self._count = count
        self.first: Final = first
        """Index of the first one."""
        self.span: Final = first, first + count - 1
        """And of the last one."""
        self._place = place
        self._found: bytes | None = None

    @classmethod
    def of(cls, data: bytes) -> StoredEntries:
        """Of somebody else. Raises BodyError: something else is among them, or there is none."""
        if len(data) < ENTRY_HEAD.size:
            raise BodyError("PushRequest: no entry behind its JSON")
        _, _, first, _, place, *_ = ENTRY_HEAD.unpack_from(data)
        units, end = entry_units(data, 0, len(data), first, place)
        if not units or end != len(data):
            raise BodyError(f"PushRequest: what follows byte {end} of its entries is none")
        found = cls(data, len(units) // _UNIT, first, place)
        found._found = units
        return found

    @property
    def _units(self) -> bytes:
        if self._found is None:
            self._found, _ = entry_units(self.data, 0, len(self.data), self.first, self._place)
        return self._found

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, key: int) -> Entry: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Entry]: ...
    def __getitem__(self, key: int | slice) -> Entry | Sequence[Entry]:
        numbers = range(self._count)[key]
        if isinstance(numbers, int):
            return self._entry(*INDEX_UNIT.unpack_from(self._units, numbers * _UNIT))
        if numbers.step != 1:
            return [self[number] for number in numbers]
        begin, end = self._at(numbers.start), self._at(max(numbers.start, numbers.stop))
        return StoredEntries(
            self.data[begin:end], len(numbers), self.first + numbers.start, self._place + begin
        )

    def unit(self, number: int) -> tuple[int, int, int, int, int]:
        """Magic, position, size, index and term of one of them, counted as those of a list."""
        units = self._found or self._units
        return INDEX_UNIT.unpack_from(units, number * _UNIT)

    def _at(self, number: int) -> int:
        """Where in ``data`` one of them begins; behind the last one: where that ends."""
        if number == self._count:
            return len(self.data)
        _, position, *_ = INDEX_UNIT.unpack_from(self._units, number * _UNIT)
        return int(position) - self._place

    def __iter__(self) -> Iterator[Entry]:
        return (self._entry(*unit) for unit in INDEX_UNIT.iter_unpack(self._units))

    def _entry(self, magic: int, position: int, size: int, index: int, term: int) -> Entry:
        at = position - self._place
        body = bytes(self.data[at + ENTRY_HEAD.size : at + size])
        return Entry(index, term, position, body, size, magic)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def body_bytes(self) -> int:
        """Of all bodies."""
        return len(self.data) - self._count * ENTRY_HEAD.size

    def up_to(self, most: int) -> tuple[memoryview, int]:
        """The bytes of the first ones, as far as they are not more than ``most``, and how many
        they are."""
        if len(self.data) <= most:
            return self.data, self._count
        number, end = 0, 0
        for _, _, size, *_ in INDEX_UNIT.iter_unpack(self._units):
            if end + size > most:
                break
            number, end = number + 1, end + size
        return self.data[:end], number

    def json(self) -> bytes:
        """An array, as ``encode_entries`` makes it of a list."""
        return entries_json(self.data, 0, len(self.data), self.first, self._place)


def body_bytes(entries: Sequence[Entry]) -> int:
    """Of all bodies together."""
    if isinstance(entries, StoredEntries):
        return entries.body_bytes
    return sum([len(entry.body) for entry in entries])


def first_and_last(entries: Sequence[Entry]) -> tuple[int, int]:
    """Their indexes; there is one at least."""
    if isinstance(entries, StoredEntries):
        return entries.span
    return entries[0].index, entries[-1].index


def first_size(entries: Sequence[Entry]) -> int:
    """Of the first one, its head included; there is one at least."""
    if isinstance(entries, StoredEntries):
        return entries.unit(0)[2]
    return entries[0].size


def last_term(entries: Sequence[Entry]) -> int:
    """Of the last one; there is one at least."""
    if isinstance(entries, StoredEntries):
        return entries.unit(-1)[4]
    return entries[-1].term


def side_by_side(entries: Sequence[Entry], most: int) -> tuple[bytes | memoryview, int]:
    """See ``join_entries``."""
    if isinstance(entries, StoredEntries):
        return entries.up_to(most)
    return join_entries(entries, most)


class _EncodedPush(DledgerBody, frozen=True, kw_only=True):
    """A push whose entries are JSON already."""

    type: PushType
    commit_index: int
    batch_entry: msgspec.Raw


def encode_entries(entries: Sequence[Entry]) -> msgspec.Raw:
    """The entries part of a push, for ``encode_push`` to every peer that gets these."""
    if isinstance(entries, StoredEntries):
        return msgspec.Raw(entries.json())
    return msgspec.Raw(_ENCODER.encode(entries))


def encode_push(request: PushRequest, entries: msgspec.Raw) -> bytes:
    """``encode_dledger`` of a push whose ``batch_entry`` is encoded already."""
    return encode_dledger(
        _EncodedPush(
            group=request.group,
            remote_id=request.remote_id,
            local_id=request.local_id,
            leader_id=request.leader_id,
            term=request.term,
            code=request.code,
            type=request.type,
            commit_index=request.commit_index,
            batch_entry=entries,
        )
    )


def encode_before_bytes(request: PushRequest) -> bytes:
    """The same push for who takes bytes, up to those of its entries."""
    push = encode_dledger(replace(request, batch_entry=[]))
    return _LENGTH.pack(len(push)) + push


def decode_push(body: bytes | bytearray | memoryview) -> PushRequest:
    """In either form. Raises BodyError."""
    if not body or body[0]:
        return decode_dledger(PushRequest, body)
    view = memoryview(body)
    behind = _LENGTH.size + int.from_bytes(view[: _LENGTH.size], "big")
    push = decode_dledger(PushRequest, view[_LENGTH.size : behind])
    return replace(push, batch_entry=StoredEntries.of(bytes(view[behind:])))


_ENCODER: Final = msgspec.json.Encoder()
