"""Bodies of the port on which members of a DLedger group speak (``dledger.md`` §2).

Each is one JSON object; the header of a frame carries no fields, its code is one of
``DledgerRequestCode`` in a request and 200 in an answer. Absent keys have the original's defaults,
unknown ones are ignored. Keys that only members of ours write, and the original ignores, say so.
All fields but those are written always: a Java reader knows other defaults for some (``magic``).

Classes of the original: RequestOrResponse and its subclasses, DLedgerEntry, DLedgerResponseCode,
DLedgerRequestCode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum, StrEnum
from typing import TypeVar

import msgspec
from msgspec import field

from ..wire import Record, i32, i64
from .codec import BodyError

B = TypeVar("B", bound="DledgerBody")


class DledgerRequestCode(IntEnum):
    """What a request is, in its header. PULL (51003) is declared by the original and not served."""

    METADATA = 50000
    APPEND = 50001
    GET = 50002
    VOTE = 51001
    HEART_BEAT = 51002
    PULL = 51003
    PUSH = 51004
    LEADERSHIP_TRANSFER = 51005


class DledgerCode(IntEnum):
    """What came of a request, in the answer's body (§2.9)."""

    UNKNOWN = -1
    SUCCESS = 200
    TIMEOUT = 300
    METADATA_ERROR = 301
    NETWORK_ERROR = 302
    UNSUPPORTED = 303
    UNKNOWN_GROUP = 400
    UNKNOWN_MEMBER = 401
    UNEXPECTED_MEMBER = 402
    EXPIRED_TERM = 403
    NOT_LEADER = 404
    NOT_FOLLOWER = 405
    INCONSISTENT_STATE = 406
    INCONSISTENT_TERM = 407
    INCONSISTENT_INDEX = 408
    INCONSISTENT_LEADER = 409
    INDEX_OUT_OF_RANGE = 410
    UNEXPECTED_ARGUMENT = 411
    REPEATED_REQUEST = 412
    REPEATED_PUSH = 413
    DISK_ERROR = 414
    DISK_FULL = 415
    TERM_NOT_READY = 416
    FALL_BEHIND_TOO_MUCH = 417
    TAKE_LEADERSHIP_FAILED = 418
    INDEX_LESS_THAN_LOCAL_BEGIN = 419
    REQUEST_WITH_EMPTY_BODYS = 420
    PUSH_REQUEST_IS_FULL = 421
    INTERNAL_ERROR = 500
    TERM_CHANGED = 501
    WAIT_QUORUM_ACK_TIMEOUT = 502
    LEADER_PENDING_FULL = 503
    ILLEGAL_MEMBER_STATE = 504
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506


class VoteResult(StrEnum):
    """A voter's decision (§3.4). UNKNOWN counts like no answer."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    REJECT_UNKNOWN_LEADER = "REJECT_UNKNOWN_LEADER"
    REJECT_UNEXPECTED_LEADER = "REJECT_UNEXPECTED_LEADER"
    REJECT_EXPIRED_VOTE_TERM = "REJECT_EXPIRED_VOTE_TERM"
    REJECT_ALREADY_VOTED = "REJECT_ALREADY_VOTED"
    REJECT_ALREADY_HAS_LEADER = "REJECT_ALREADY_HAS_LEADER"
    REJECT_TERM_NOT_READY = "REJECT_TERM_NOT_READY"
    REJECT_TERM_SMALL_THAN_LEDGER = "REJECT_TERM_SMALL_THAN_LEDGER"
    REJECT_EXPIRED_LEDGER_TERM = "REJECT_EXPIRED_LEDGER_TERM"
    REJECT_SMALL_LEDGER_END_INDEX = "REJECT_SMALL_LEDGER_END_INDEX"
    REJECT_TAKING_LEADERSHIP = "REJECT_TAKING_LEADERSHIP"


class PushType(StrEnum):
    """What a leader wants of a follower's log (§2.7)."""

    APPEND = "APPEND"
    COMMIT = "COMMIT"
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"


def _written(value: int) -> int:
    """A default that is written all the same: msgspec leaves out a field only when its value is the
    default itself, not what a factory made."""
    return field(default_factory=lambda: value)


class Entry(Record, frozen=True, omit_defaults=True):
    """One entry of the log (§4). ``size`` counts the 48 bytes before the body too."""

    index: i64
    term: i64
    pos: i64
    """Absolute position of the entry in the log, of its first byte."""
    body: bytes
    """One record as it is stored."""
    size: i32
    magic: i32
    channel: i32 = 0
    chain_crc: i32 = 0
    body_crc: i32 = 0


class DledgerBody(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of every body (§2.3)."""

    group: str | None = None
    remote_id: str | None = None
    """The receiver."""
    local_id: str | None = None
    """The sender."""
    leader_id: str | None = None
    """The sender as leader; in VOTE the candidate."""
    term: i64 = _written(-1)
    code: i32 = _written(DledgerCode.SUCCESS)


class OldLogTold(DledgerBody, frozen=True, kw_only=True):
    """Only ours: what commit log the sender has from before the group. Absent: it does not tell."""

    old_log_end: i64 | None = None
    """Where its last record ends; 0: there is none."""
    old_log_crc: i64 | None = None
    """CRC32 of its last bytes (``store/dledger/old_log.py``)."""


class MetadataRequest(DledgerBody, frozen=True, kw_only=True):
    """Who leads?"""

    tables_changed: bool | None = None
    """Only ours: the sender leads, and its broker's topics or groups have changed."""
    not_registered: bool | None = None
    """Only ours: a name server takes another one for the master than the leader that is asked."""


class MetadataResponse(OldLogTold, frozen=True, kw_only=True):
    """``leader_id`` is absent while none is known; ``term`` is -1 from a Java member, ours write
    their own. What follows ``peers`` only ours write."""

    peers: dict[str, str] | None = None
    """Id to address."""
    ledger_end_index: i64 | None = None
    ledger_end_term: i64 | None = None
    committed_index: i64 | None = None
    leader_heard_ms: i64 | None = None
    """So long ago the leader that it names was heard; 0 when it leads itself."""
    leader_pace_ms: i64 | None = None
    """And so often that leader sends heartbeats."""
    votes: bool | None = None
    """It has all that it ever acknowledged, and so may vote."""
    broker_addr: str | None = None
    """Where its broker takes requests: followers take the leader's tables from there."""


class AppendRequest(DledgerBody, frozen=True, kw_only=True):
    """A client's entry (tools only)."""

    body: bytes = b""


class AppendResponse(DledgerBody, frozen=True, kw_only=True):
    """Where it went, -1 when it did not."""

    index: i64 = _written(-1)
    pos: i64 = _written(-1)


class GetRequest(DledgerBody, frozen=True, kw_only=True):
    """One entry by its index (tools only, in the original)."""

    begin_index: i64 = _written(-1)
    committed: bool = False
    """Of our own: a follower may answer, too, what it knows to be committed. Members of the
    original do not read this."""


class GetResponse(DledgerBody, frozen=True, kw_only=True):
    """The entry, none with an error."""

    entries: list[Entry] = field(default_factory=list)


class VoteRequest(OldLogTold, frozen=True, kw_only=True):
    """``leader_id`` asks for a vote in ``term`` (§2.5)."""

    ledger_end_index: i64 = _written(-1)
    ledger_end_term: i64 = _written(-1)
    """Term of the candidate's last entry."""


class VoteResponse(DledgerBody, frozen=True, kw_only=True):
    """``term`` is the voter's."""

    vote_result: VoteResult = field(default_factory=lambda: VoteResult.UNKNOWN)


class HeartbeatRequest(OldLogTold, frozen=True, kw_only=True):
    """``leader_id`` leads in ``term`` (§2.6)."""

    heart_beat_time_interval_ms: i64 | None = None
    """Only ours: the leader's pace. Absent: 2000, a Java leader."""


class HeartbeatResponse(OldLogTold, frozen=True, kw_only=True):
    """Its code, and with 403 the follower's larger term."""

    takes_bytes: bool | None = None
    """Only ours: it reads pushes whose entries follow the JSON as bytes (``stored_entries``)."""


class PushRequest(DledgerBody, frozen=True, kw_only=True):
    """A leader works on a follower's log (§2.7). ``batch_entry`` is one object for all peers
    that get the same entries: see ``stored_entries``."""

    type: PushType = field(default_factory=lambda: PushType.APPEND)
    entry: Entry | None = None
    batch_entry: Sequence[Entry] = field(default_factory=list)
    """Not empty: ``entry`` does not count. Consecutive indexes."""
    commit_index: i64 = _written(-1)


class PushResponse(DledgerBody, frozen=True, kw_only=True):
    """``term`` echoes the request's."""

    index: i64 | None = None
    """The request's first index; absent for COMMIT."""
    count: i32 = _written(0)
    begin_index: i64 = _written(0)
    """Of the follower's log after the operation, as ``end_index``; both -1 when it is empty, and
    without meaning (0) where the request was refused before anybody looked at the log."""
    end_index: i64 = _written(0)


class TransferRequest(DledgerBody, frozen=True, kw_only=True):
    """Leadership goes to another: tool to leader, leader to transferee (§2.8)."""

    transfer_id: str | None = None
    """The present leader."""
    transferee_id: str | None = None
    take_leadership_ledger_index: i64 = _written(0)
    """So far the transferee must have come before it stands."""


class TransferResponse(DledgerBody, frozen=True, kw_only=True):
    """Its code."""


_ENCODER = msgspec.json.Encoder()


def encode_dledger(body: DledgerBody) -> bytes:
    """A body as JSON; order of keys means nothing to the original."""
    return _ENCODER.encode(body)


@functools.cache
def _decoder(kind: type[B]) -> Callable[[bytes | bytearray | memoryview], B]:
    return msgspec.json.Decoder(kind).decode


def decode_dledger(kind: type[B], body: bytes | bytearray | memoryview) -> B:
    """A body of that kind. Raises BodyError: no JSON, or not of its shape."""
    try:
        found: B = _decoder(kind)(body)
        return found
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BodyError(f"{kind.__name__}: {error}") from None


REQUEST_BODIES: dict[DledgerRequestCode, type[DledgerBody]] = {
    DledgerRequestCode.METADATA: MetadataRequest,
    DledgerRequestCode.APPEND: AppendRequest,
    DledgerRequestCode.GET: GetRequest,
    DledgerRequestCode.VOTE: VoteRequest,
    DledgerRequestCode.HEART_BEAT: HeartbeatRequest,
    DledgerRequestCode.PUSH: PushRequest,
    DledgerRequestCode.LEADERSHIP_TRANSFER: TransferRequest,
}
"""What a request's body is, by the code of its header."""

RESPONSE_BODIES: dict[DledgerRequestCode, type[DledgerBody]] = {
    DledgerRequestCode.METADATA: MetadataResponse,
    DledgerRequestCode.APPEND: AppendResponse,
    DledgerRequestCode.GET: GetResponse,
    DledgerRequestCode.VOTE: VoteResponse,
    DledgerRequestCode.HEART_BEAT: HeartbeatResponse,
    DledgerRequestCode.PUSH: PushResponse,
    DledgerRequestCode.LEADERSHIP_TRANSFER: TransferResponse,
}
"""What its answer's body is."""

REQUEST_CODES: dict[type[DledgerBody], DledgerRequestCode] = {
    kind: code for code, kind in REQUEST_BODIES.items()
}
"""The code that a request's header gets."""
