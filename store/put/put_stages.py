"""What stands around the writer when it is switched on: stages that see a message before it is
stored and its result after.

Without any, ``MessageStore.put_message`` is that of the writer, and a put costs nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ParamSpec, Protocol

import msgspec

from ..model.status import PutResult

P = ParamSpec("P")


class Put(msgspec.Struct, gc=False):
    """The arguments of ``MessageWriter.put_message``, in its order."""

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    born_host: bytes
    born_timestamp: int
    store_timestamp: int
    tags_code: int = 0
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


Write = Callable[[Put], PutResult]


class PutStage(Protocol):
    """One of them."""

    def put(self, write: Write, message: Put) -> PutResult:
        """Call ``write`` with the message, perhaps changed, and return its result; or refuse it."""


def staged(
    put_message: Callable[P, PutResult], stages: Sequence[PutStage]
) -> Callable[P, PutResult]:
    """``MessageWriter.put_message`` through all stages, the first one outermost; without any it
    itself."""
    if not stages:
        return put_message
    write: Write = partial(_call, put_message)
    for stage in reversed(stages):
        write = partial(stage.put, write)

    def put_through(*fields: P.args, **named: P.kwargs) -> PutResult:
        return write(Put(*fields, **named))  # type: ignore[arg-type]  # its fields are the parameters

    return put_through


def _call(put_message: Callable[..., PutResult], message: Put) -> PutResult:
    return put_message(*msgspec.structs.astuple(message))
