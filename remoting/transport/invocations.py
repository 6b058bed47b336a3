"""Requests of ours on one connection, from their frame on until they are answered or given up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..errors import ConnectionLostError, RequestTimeout, TooManyRequestsError
from ..protocol.codes import RequestCode
from ..protocol.commands.send import SendMessageResponse
from ..protocol.frames.frame import LONG_HEADER, Body, encode_prefix
from ..protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from ..protocol.frames.templates import NO_HEADER, encoder_for, fields_piece, remark_piece
from ..protocol.leaves import Replies
from ..protocol.wire import Record, to_fields
from ..responses import Response, form_to_read, read_answer

MAX_INVOCATIONS = 65535
"""Requests in flight per connection (clientAsyncSemaphoreValue)."""

_opaque = (
    itertools.count()
)  # one sequence per process, as in the original; ids of the two directions are independent


def next_opaque() -> int:
    """A fresh request id, wrapped into 31 bits."""
    return next(_opaque) & 0x7FFFFFFF


def encode_request(
    serialize_type: int,
    code: int,
    header: Record | None,
    body: bytes | bytearray | memoryview,
    opaque: int,
    flag: int = 0,
    *,
    ext_fields: dict[str, str] | None = None,
    remark: str | None = None,
) -> bytes:
    """The frame of a request; ``ext_fields`` go on top of the header's. Raises ``FrameError`` for a
    body that no frame can carry."""
    head = request_head(
        serialize_type, code, header, len(body), opaque, flag, ext_fields=ext_fields, remark=remark
    )
    return b"".join((head, body)) if len(body) else head


def request_head(
    serialize_type: int,
    code: int,
    header: Record | None,
    body_length: int,
    opaque: int,
    flag: int = 0,
    *,
    ext_fields: dict[str, str] | None = None,
    remark: str | None = None,
) -> bytes:
    """What stands in front of the body. Raises as ``encode_request``."""
    if serialize_type == SerializeType.JSON:
        encoder = NO_HEADER if header is None else encoder_for(type(header))
        more = fields_piece(ext_fields) if ext_fields else b""
        encoded = encoder.full(code, header, flag, opaque, remark_piece(remark), more)
    else:
        fields = {**(to_fields(header) if header is not None else {}), **(ext_fields or {})}
        command = RemotingCommand(
            code=code, opaque=opaque, flag=flag, remark=remark, ext_fields=fields or None
        )
        encoded = encode_header(command, serialize_type)
    return encode_prefix(serialize_type, len(encoded), body_length) + encoded


_read_stored: Final = Replies(SendMessageResponse).read


class Send(int):
    """A request code of somebody who gets the typed header alone where a message was stored. That
    is the usual answer, and most answers that a client gets are to sends."""

    __slots__ = ()


class Waiter(Protocol):
    """What a future has: for who is told of an answer in the turn in which it comes, which with a
    future is the next one."""

    def done(self) -> bool: ...
    def set_result(self, answer: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...


_Waiting = tuple[int, Waiter, float, float]
"""Request code, who waits for the answer, when it was sent, until when it may come (the loop's
time)."""


class Invocations:
    """The table of what waits for an answer, by opaque, and its deadlines.

    One timer looks after all of them. It is set for the earliest deadline and, when that has come,
    for the earliest of those that still wait: nearly all are answered long before, so the table is
    looked through once per timeout and not per request. ``on_timeout`` is told when the first of
    the requests was sent that were just given up; ``peer`` is for texts.
    """

    __slots__ = (
        "_create_future",
        "_loop",
        "_now",
        "_on_timeout",
        "_timer",
        "_timer_at",
        "peer",
        "table",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_timeout: Callable[[float], None] | None = None
    ) -> None:
        self.peer: str = "unknown"
        self._loop = loop
        self._now = loop.time
        self._create_future = loop.create_future
        self._on_timeout = on_timeout
        self.table: dict[int, _Waiting] = {}
        """Always the same dict."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER

    def __len__(self) -> int:
        return len(self.table)

    def add(self, code: int, opaque: int, timeout: float, waiter: Waiter | None = None) -> Any:
        """A request is about to be sent; the waiter, without one the future that is returned, gets
        its answer: a ``Response``, or, where the code is a ``Send``, perhaps a
        ``SendMessageResponse``. Raises ``TooManyRequestsError``."""
        table = self.table
        if len(table) >= MAX_INVOCATIONS:
            raise TooManyRequestsError(
                f"{MAX_INVOCATIONS} requests to {self.peer} wait for an answer"
            )
        if waiter is None:
            waiter = self._create_future()
        now = self._now()
        when = now + timeout
        table[opaque] = (code, waiter, now, when)
        if when < self._timer_at:
            self._set_timer(when)
        return waiter

    def complete_frame(self, serialize_type: int, header: bytes, body: Body) -> bool:
        """If a frame is an answer, take it. On a client almost every frame is one. One that nobody
        waits for (any more) is ignored."""
        answer: Response | SendMessageResponse | None
        if serialize_type & LONG_HEADER:
            serialize_type = form_to_read(serialize_type, header)
        if (stored := _read_stored(serialize_type, header)) is not None:
            opaque, answer = stored
        elif (answer := read_answer(serialize_type, header)) is not None:
            opaque = answer.opaque
        else:
            return False
        waiting = self.table.pop(opaque, None)
        if waiting is None or (future := waiting[1]).done():
            return True
        if stored is not None and type(waiting[0]) is not Send:
            answer = read_answer(serialize_type, header)
        if isinstance(answer, Response):
            answer.request_code = waiting[0]
            answer.body = bytes(body)
        future.set_result(answer)
        return True

    def complete(self, command: RemotingCommand, body: Body) -> None:
        """Take an answer that could be read the long way only."""
        waiting = self.table.pop(command.opaque, None)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(Response.of(command, bytes(body), waiting[0]))

    def fail(self, reason: str) -> None:
        """The connection is gone, and with it everything in flight."""
        # it leads back to the connection: nobody may look for that circle (``long_lived.py``)
        self._on_timeout = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = list(self.table.values())
        self.table.clear()
        for _, future, _, _ in waiting:
            if not future.done():
                future.set_exception(
                    ConnectionLostError(f"connection to {self.peer} lost: {reason}")
                )

    def oldest_send_s(self) -> float:
        """For how many seconds the first send has waited that is not answered yet; 0.0 where none
        does. What a peer holds on purpose, pulls, is passed over."""
        for code, _, begun, _ in itertools.islice(self.table.values(), _MOST_LOOKED_AT):
            if code in _SENDS:
                return self._now() - begun
        return 0.0

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._timer, self._timer_at = None, _NEVER
        now = self._now() + 0.001
        late = [(opaque, each) for opaque, each in self.table.items() if each[3] <= now]
        for opaque, (code, future, _, _) in late:
            del self.table[opaque]
            if not future.done():
                future.set_exception(
                    RequestTimeout(
                        f"no answer to {RequestCode(code).name} from {self.peer} in time"
                    )
                )
        if self.table:
            first = min(when for _, _, _, when in self.table.values())
            self._set_timer(max(first, now + _LEAST_REST + len(self.table) * _REST_PER_REQUEST))
        if late and self._on_timeout is not None:
            self._on_timeout(min(begun for _, (_, _, begun, _) in late))


_NEVER: Final = float("inf")
_SENDS: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
_MOST_LOOKED_AT: Final = 1000
_LEAST_REST: Final = 0.002
_REST_PER_REQUEST: Final = 2e-6
"""Seconds. Between two looks through the table there is some time for other work, the more the
longer it is."""
