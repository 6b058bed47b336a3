"""The puts of a store: the writer, and around it the stages that are switched on."""

from __future__ import annotations

from typing import NamedTuple

from .consume_queue_ext_writer import ConsumeQueueExtWriter
from .message_writer import MessageWriter
from .multi_dispatch import MultiDispatch, batches_without_numbers
from .put_stages import PutBatchOf, PutFields, PutStage, Write, by_fields, staged


class Puts(NamedTuple):
    """What ``MessageStore`` offers."""

    message: Write
    fields: PutFields
    again: Write
    batch: PutBatchOf

    @classmethod
    def through(
        cls,
        dispatch: MultiDispatch | None,
        ext: ConsumeQueueExtWriter | None,
        writer: MessageWriter,
    ) -> Puts:
        """The first one outermost; without stages a put is that of the writer."""
        stages: list[PutStage] = [stage for stage in (dispatch, ext) if stage is not None]
        message = staged(writer.put_message, stages)
        batch = writer.put_batch if ext is None else ext.put_batch
        return cls(
            message,
            by_fields(message) if stages else writer.put_fields,
            writer.with_any_size(message),
            batch if dispatch is None else batches_without_numbers(batch),
        )
