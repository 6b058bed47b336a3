"""What stands around the writer when it is switched on: stages that see a message before it is
stored and its result after.

Without any, the puts of ``MessageStore`` are those of the writer, and cost nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ..model.put import PutBatch, PutMessage
from ..model.status import PutResult

Write = Callable[[PutMessage], PutResult]
PutBatchOf = Callable[[PutBatch], PutResult]
PutFields = Callable[..., PutResult]
"""With the fields of a PutMessage, in their order: see ``MessageWriter.put_fields``."""


class PutStage(Protocol):
    """One of them."""

    def put(self, write: Write, message: PutMessage) -> PutResult:
        """Call ``write`` with the message, perhaps changed, and return its result; or refuse it."""


def staged(write: Write, stages: Sequence[PutStage]) -> Write:
    """``MessageWriter.put_message`` through all stages, the first one outermost."""
    for stage in reversed(stages):
        write = partial(stage.put, write)
    return write


def by_fields(write: Write) -> PutFields:
    """The same for who has the fields."""

    def put_fields(*fields: object) -> PutResult:
        return write(PutMessage(*fields))  # type: ignore[arg-type]

    return put_fields
