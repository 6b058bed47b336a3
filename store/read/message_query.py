"""Messages by key: what the index points to, held against the records
(DefaultMessageStore.queryMessage; consumequeue-index.md §3.6).

Other than in the original a record is only found when it has the topic and the key (hashes
collide), once (recovery may have indexed it twice), and when its own store time is in the range
(the index knows seconds).
"""

from __future__ import annotations

from typing import Final

from ...remoting.protocol.message.index_keys import key_hash, keys_of
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.slices import Steps
from ..files import StoreFiles
from ..model.status import QueryResult
from .readable import Readable

_MAX_BYTES: Final = 8 << 20
"""Of one answer, well below the longest frame; the first record always fits."""


class MessageQuery:
    """The searching half of the index."""

    def __init__(self, files: StoreFiles, max_count: int) -> None:
        self._log: Final = files.log
        self._files: Final = files.index
        self.max_count = max_count
        self.readable: Readable | None = None
        """How far the log may be read; None: to its end."""

    def steps(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> Steps[QueryResult]:
        """The newest messages of a topic with a key or unique key, stored in a range of time (ms,
        both ends included).

        At most ``max_count`` and ``maxMsgsNumBatch``. In steps of less than a millisecond, so that
        other work can go on in between; the result is the value of the generator. Messages put with
        ``messageIndexEnable=false`` are not found, nor are those whose keys wait: see
        ``MessageStore.indexed``.
        """
        files = self._files
        update = (files.end_timestamp, max(0, files.end_phy_offset))
        max_count = min(max_count, self.max_count)
        wanted = key.encode("utf-8", "replace")
        found: dict[int, bytes] = {}
        total = looked_at = 0
        for phy_offset in (
            files.find(key_hash(topic, key), begin_ms, end_ms) if max_count > 0 else ()
        ):
            if phy_offset is None:
                yield
                continue
            looked_at += 1
            if not looked_at % 8:
                yield
            if phy_offset in found:
                continue
            record = self._matching(phy_offset, topic, wanted, begin_ms, end_ms)
            if record is None:
                continue
            total += len(record)
            if found and total > _MAX_BYTES:
                break
            found[phy_offset] = record
            if len(found) >= max_count:
                break
        return QueryResult(b"".join(found[phy_offset] for phy_offset in sorted(found)), *update)

    def _matching(
        self, phy_offset: int, topic: str, key: bytes, begin_ms: int, end_ms: int
    ) -> bytes | None:
        """The record at an offset, when it is what was asked for."""
        if self.readable is not None and phy_offset >= self.readable.end:
            return None
        record = self._log.record(phy_offset)
        if record is None:
            return None
        try:
            message = decode_record(record, check_crc=True)
        except RecordError:
            return None
        fits = message.topic == topic and begin_ms <= message.store_timestamp <= end_ms
        return record if fits and key in keys_of(message.raw_properties) else None
