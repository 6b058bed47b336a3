"""Messages whose unit in the consume queue has an extension (``enableConsumeQueueExt``; class
ConsumeQueue).

Stands in front of MessageWriter only when it is switched on: a put costs nothing otherwise. The
message is stored first, as always, with its plain tags code; then its extension is written, and the
unit gets the address. Whatever stops that in between, the queue has a unit that is right.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final

from ...remoting.outages import Outages
from ...remoting.protocol.message.properties import tags_code_of
from ...remoting.protocol.message.sys_flag import UNQUEUED
from ...remoting.protocol.record.batch import decode_batch
from ...remoting.protocol.record.batch_records import merged_properties
from ..model.config import CQ_UNIT_SIZE
from ..model.errors import StoreFileError
from ..model.put import PutBatch, PutMessage
from ..model.status import PutResult, PutStatus
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_ext import MAX_BITMAP_SIZE, ExtUnit
from .message_writer import MessageWriter
from .put_stages import Write

log: Final = logging.getLogger(__name__)

BitmapOf = Callable[[str, bytes, int, int], bytes | None]
"""``bitmap_of(topic, properties, tags_code, store_timestamp)``: which SQL filters want a message,
None when nobody asks. Called on the event loop for each message, and while the store is opened (in
the thread that opens it): quick, and without errors of its own. ``properties`` is the encoded
property string. At most 32747 bytes; a longer bitmap is left out."""

_CODE: Final = struct.Struct(">q")
_CODE_AT: Final = CQ_UNIT_SIZE - _CODE.size


class ConsumeQueueExtWriter:
    """Puts like a MessageWriter, and keeps the bitmap that ``bitmap_of`` makes of each message."""

    def __init__(
        self,
        writer: MessageWriter,
        table: dict[tuple[str, int], ConsumeQueue],
        bitmap_of: BitmapOf | None,
        outages: Outages,
    ) -> None:
        self._writer: Final = writer
        self._table: Final = table
        self._bitmap_of: Final = bitmap_of
        self._outages: Final = outages

    def put(self, write: Write, message: PutMessage) -> PutResult:
        """A stage of ``put_message``: see ``put_stages``."""
        result = write(message)
        if result.status is PutStatus.PUT_OK and not message.sys_flag & UNQUEUED:
            queue = self._table[message.topic, message.queue_id]
            tags_code, stored_at = message.tags_code, message.store_timestamp
            self._extend(
                queue, result.queue_offset, message.topic, message.properties, tags_code, stored_at
            )
        return result

    def put_batch(self, batch: PutBatch) -> PutResult:
        """As MessageWriter.put_batch."""
        result = self._writer.put_batch(batch)
        if result.status is PutStatus.PUT_OK:
            topic, now_ms = batch.topic, batch.store_timestamp
            queue = self._table[topic, batch.queue_id]
            items = (
                decode_batch(batch.items, max_items=result.count)
                if isinstance(batch.items, (bytes, memoryview))
                else batch.items
            )
            for offset, item in enumerate(items, result.queue_offset):
                merged = merged_properties(item.properties, batch.properties)
                self._extend(queue, offset, topic, merged, tags_code_of(merged), now_ms)
        return result

    def _extend(
        self,
        queue: ConsumeQueue,
        offset: int,
        topic: str,
        properties: bytes,
        tags_code: int,
        store_timestamp: int,
    ) -> None:
        code = self.code_of(queue, topic, properties, tags_code, store_timestamp)
        if code == tags_code:
            return
        file = queue.files.find(offset * CQ_UNIT_SIZE)
        assert file is not None, "the unit was just written"
        try:
            units = file.map
        except (
            StoreFileError
        ) as error:  # of a batch that begins in a file which is not mapped any more
            self._outages.occurs(
                log, ("bitmap",), "the filter bitmap of a message is not kept: %s", error
            )
            return
        _CODE.pack_into(units, offset * CQ_UNIT_SIZE - file.start + _CODE_AT, code)

    def code_of(
        self,
        queue: ConsumeQueue,
        topic: str,
        properties: bytes,
        tags_code: int,
        store_timestamp: int,
    ) -> int:
        """Write the extension of a message; what its unit has in the place of the tags code. That
        is the tags code itself when there is no space for an extension.
        """
        bitmap = (
            self._bitmap_of(topic, properties, tags_code, store_timestamp)
            if self._bitmap_of is not None
            else None
        )
        if bitmap is None or len(bitmap) > MAX_BITMAP_SIZE:
            bitmap = b""
        ext = queue.ext
        address = None if ext is None else ext.put(ExtUnit(tags_code, store_timestamp, bitmap))
        return tags_code if address is None else address
