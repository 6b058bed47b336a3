"""What put and get answer."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from ...remoting.protocol.record.layout import QUEUE_UNIT


class PutStatus(Enum):
    """PutMessageStatus of the original (commitlog.md §4)."""

    PUT_OK = auto()
    FLUSH_DISK_TIMEOUT = auto()
    FLUSH_SLAVE_TIMEOUT = auto()
    SLAVE_NOT_AVAILABLE = auto()
    SERVICE_NOT_AVAILABLE = auto()
    OS_PAGECACHE_BUSY = auto()
    """What a member of a DLedger group answers that takes nothing just now (dledger.md §5.3)."""
    CREATE_MAPEDFILE_FAILED = auto()
    MESSAGE_ILLEGAL = auto()
    PROPERTIES_SIZE_EXCEEDED = auto()
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = auto()

    @property
    def is_for_good(self) -> bool:
        """It lies in the message (or in a limit that only an administrator changes): the same put
        will be refused again. Every other refusal passes: a full disk, one that is busy, a
        slave."""
        return self in _FOR_GOOD


_FOR_GOOD = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
    }
)


class PutResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message or batch went. The positions count only with status PUT_OK."""

    status: PutStatus
    phy_offset: int = 0
    """Of the (first) record."""
    queue_offset: int = 0
    """Number of the (first) message in its queue; 0 for prepared and rolled back ones."""
    size: int = 0
    """Bytes written; ``phy_offset + size`` is what a flush or a replica must reach."""
    count: int = 1
    units: bytes = b""
    """Of every record of a batch, as the consume queue has them; empty for a single message."""
    remark: str = ""
    """Why not, for the log and for the sender."""

    @property
    def phy_offsets(self) -> list[int]:
        """Of every record of a batch."""
        return [phy_offset for phy_offset, *_ in QUEUE_UNIT.iter_unpack(self.units)]


class GetMessageStatus(Enum):
    """GetMessageStatus of the original (commitlog.md §13)."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MESSAGE_IN_QUEUE = auto()


class GetResult(msgspec.Struct, frozen=True, gc=False):
    """What a pull found."""

    status: GetMessageStatus
    next_begin_offset: int
    """Where the next pull goes on."""
    min_offset: int
    max_offset: int
    body: bytes | memoryview = b""
    """The records one after the other, as they lie in the commit log. A view only where it was
    asked for."""
    count: int = 0
    behind_bytes: int = 0
    """Commit log bytes written after the last message looked at."""
    suggest_pulling_from_slave: bool = False
    damaged: int = 0
    """Messages that were left out because their records are damaged."""


class QueryResult(msgspec.Struct, frozen=True, gc=False):
    """What a query by key found."""

    records: bytes
    """The records one after the other, in the order of the commit log."""
    index_last_update_timestamp: int
    """Store time of the newest message in the index, 0 for none."""
    index_last_update_phyoffset: int
    """Where that message lies."""
