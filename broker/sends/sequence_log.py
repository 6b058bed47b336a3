"""The table of ``sequences.py`` in the log: read when this broker is asked for it as a master, and
written again and again, so that little has to be read.

A snapshot is a message of SELF_TEST_TOPIC's queue 1, which nobody but a broker can write and every
broker has; the original copies it to its slaves and takes it for a message that nobody reads. What
was stored behind the ``position`` of the last one is read from the log. Where there is none, or too
much lies behind it (a broker of the original was in this place for long), the end of the log is
read, and what lies before counts as forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.errors import RequestError
from ...remoting.outages import Outages
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.properties import PropertyName, encode_properties, tags_code
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import decode_record
from ...remoting.protocol.record.verdict import RecordError
from ...remoting.sliced_requests import in_slices
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.model.put import PutMessage
from ...store.model.status import PutStatus
from .sequences import Sequences, SnapshotError

log: Final = logging.getLogger(__name__)

QUEUE_ID: Final = 1
AGAIN_BYTES: Final = 64 << 20
"""A snapshot is written when the log has grown by so much: a tenth of a second to read, a few
seconds where all of it are single messages with sequences."""
MOST_READ_BYTES: Final = 4 << 30
"""More of the log is not read: some seconds, in slices of a millisecond."""
LOOK_S: Final = 10.0
_NOBODY: Final = pack_host("127.0.0.1", 0)
_BORN_AT: Final = "127.0.0.1:0"
"""As for ``TableLog``: no client can have this address."""
_TAG: Final = "SEQUENCES"
_TAGS_CODE: Final = tags_code(_TAG)
_PROPERTIES: Final = encode_properties({PropertyName.TAGS: _TAG})
_NOT_MASTER: Final = "this broker is not the master that it was: ask for the route"
_MOST_LOOKED_AT: Final = 16
"""Snapshots, from the last one backwards, until one can be read."""


class SequenceLog:
    """Service of a master: keeps snapshots young. ``ready`` before ``sequences`` is asked."""

    def __init__(
        self,
        store: MessageStore,
        sequences: Sequences,
        clock: Clock,
        *,
        settled: Callable[[], Awaitable[bool]],
    ) -> None:
        """``settled`` has what is stored by now safe, and tells whether it is."""
        self._settled = settled
        self.sequences: Final = sequences
        self.is_ready: bool = False
        """The table has what the log has."""
        self._store: Final = store
        self._clock: Final = clock
        self._position = 0
        """Of the last snapshot."""
        self._roles = 0
        self._used = asyncio.Event()
        self._one: Final = asyncio.Lock()
        self._outages = Outages(clock)

    def forget(self) -> None:
        """This broker is another one from now on, master or slave: what it knew may not be so."""
        self._roles += 1
        self.is_ready = False
        self._used.clear()

    async def ready(self) -> None:
        """Return when the table has what the log has. Raises ``RequestError`` where that cannot be
        read, or the role is lost meanwhile."""
        async with self._one:
            if self.is_ready:
                return
            role = self._roles
            try:
                await self._load()
            except StoreError as error:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY, f"what producers have sent cannot be read: {error}"
                ) from error
            if self._roles != role:
                raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_MASTER)
            self.is_ready = True
            self._used.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._used.wait()
            await self._clock.sleep(LOOK_S)
            if self.is_ready and len(self.sequences) and self._is_old():
                await self.save()

    def _is_old(self) -> bool:
        """Much lies behind it, or it is in a file that may expire before the last one does."""
        end = self._store.log_end
        return end - self._position > AGAIN_BYTES or self._position < self._store.log_file_begin(
            end
        )

    async def save(self) -> str | None:
        """Put a snapshot into the log, or tell why not: that is tried again."""
        role, position = self._roles, self._store.log_end
        self.sequences.expire(self._clock.time_ms())
        body = await in_slices(self.sequences.snapshot(position))
        is_safe = await self._settled()  # or it might be there after a power failure without that
        if self._roles != role:
            return _NOT_MASTER
        reason = self._put(body) if is_safe else "what it tells of is not safe"
        if reason is None:
            self._position = position
            self._outages.works(("save",))
        else:
            self._outages.fails(
                log,
                ("save",),
                "what producers have sent is not written, tried again every %.0f s reason=%s",
                LOOK_S,
                reason,
            )
        return reason

    def _put(self, body: bytes) -> str | None:
        """Why it could not be."""
        now = self._clock.time_ms()
        result = self._store.put_again(
            PutMessage(
                TopicName.SELF_TEST,
                QUEUE_ID,
                body,
                _PROPERTIES,
                _NOBODY,
                now,
                now,
                _TAGS_CODE,
            )
        )
        is_stored = result.status is PutStatus.PUT_OK
        return None if is_stored else result.remark or result.status.name

    # --- reading
    # ----------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Raises ``StoreError``."""
        store, began = self._store, self._clock.monotonic()
        stop = store.log_end
        start = await self._load_snapshot()
        if start is None or stop - start > MOST_READ_BYTES:
            start = await self._begin_without(stop)
        scanner, newest_ms = store.scan_log(), 0
        for records in scanner.pieces(start, stop):
            newest_ms = max(newest_ms, *records.store_timestamps)
            await in_slices(self.sequences.read(records))
            await asyncio.sleep(0)
        if store.min_phy_offset > start:  # what lay behind may not have been found either
            raise StoreError(f"what lies at {start} has expired meanwhile")
        now = self._clock.time_ms()
        if scanner.gaps:
            log.warning(
                "the log is damaged from %d on: what producers sent before is forgotten, and they "
                "are told so",
                scanner.gaps[0].begin,
            )
            # the clock may have been set back since the last of it was stored
            self.sequences.clear(max(now, newest_ms, self.sequences.newest_ms) + 1)
        self.sequences.read_all(now)
        self._position = start
        log.info(
            "sequences of producers are known entries=%d read=%d..%d seconds=%.2f",
            len(self.sequences),
            start,
            stop,
            self._clock.monotonic() - began,
        )

    async def _load_snapshot(self) -> int | None:
        """The position of the last one that can be read; None: there is none."""
        store = self._store
        end = store.max_offset(TopicName.SELF_TEST, QUEUE_ID)
        begin = store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
        for number in range(end - 1, max(begin, end - _MOST_LOOKED_AT) - 1, -1):
            body = self._snapshot_at(number)
            if body is None:
                continue
            try:
                position = await in_slices(self.sequences.load(body))
            except SnapshotError as error:
                log.warning("a snapshot of sequences is passed over number=%d: %s", number, error)
                continue
            if position >= store.min_phy_offset:
                return position
        return None

    def _snapshot_at(self, number: int) -> bytes | None:
        """The body of such a message, if it is one."""
        units = self._store.entries.some(TopicName.SELF_TEST, QUEUE_ID, number, 1)
        record = self._store.message_by_offset(units[0][0]) if units else None
        if record is None:
            return None
        try:
            message = decode_record(record, check_crc=True)
        except RecordError as error:
            log.warning("a snapshot of sequences is passed over number=%d: %s", number, error)
            return None
        return message.body if message.born_host == _BORN_AT else None

    async def _begin_without(self, stop: int) -> int:
        """Where to read from, with nothing known of what lies before."""
        store = self._store
        start = store.log_file_begin(max(store.min_phy_offset, stop - MOST_READ_BYTES))
        floor_ms = 0
        if start:
            first = next(store.scan_log().pieces(start, stop), None)
            stored_ms = self._clock.time_ms() if first is None else first.store_timestamps[0]
            floor_ms = stored_ms + 1
        self.sequences.clear(floor_ms)
        return start
