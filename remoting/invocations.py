"""Requests of ours on one connection, from the moment they are sent until they are answered or given up."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from heapq import heappush
from typing import Any, Final

import msgspec

from .errors import BrokerError, ConnectionLostError, ProtocolError, RequestTimeout, TooManyRequestsError, broker_error
from .protocol.codes import RequestCode
from .protocol.commands import COMMANDS
from .protocol.frame import Body
from .protocol.serialization import RESPONSE_FLAG, RemotingCommand, decode_header
from .protocol.wire import FieldError, from_fields

log: Final = logging.getLogger(__name__)

MAX_INVOCATIONS = 65535
"""Requests in flight per connection (clientAsyncSemaphoreValue)."""

_opaque = itertools.count()  # one sequence per process, as in the original; ids of the two directions are independent


def next_opaque() -> int:
    """A fresh request id, wrapped into 31 bits."""
    return next(_opaque) & 0x7FFFFFFF


class _Answer(msgspec.Struct, gc=False):
    """What a ``Response`` needs of a header."""

    code: int
    ext_fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)
    flag: int = 0
    opaque: int = 0
    remark: str | None = None
    version: int = 0


_decode_answer = msgspec.json.Decoder(_Answer).decode


class Response:
    """The answer to a request of ours. ``header`` is decoded when it is asked for."""

    __slots__ = ("_command", "_request_code", "body")

    def __init__(self, command: RemotingCommand | _Answer, body: bytes, request_code: int) -> None:
        self._command = command
        self._request_code = request_code
        self.body: bytes = body

    @property
    def code(self) -> int:
        return self._command.code

    @property
    def remark(self) -> str | None:
        return self._command.remark

    @property
    def version(self) -> int:
        return self._command.version

    @property
    def ext_fields(self) -> dict[str, str]:
        return self._command.ext_fields or {}

    @property
    def header(self) -> Any:
        """The typed response header of the command. Raises ``ProtocolError`` when a field is missing or malformed."""
        response_type = COMMANDS[RequestCode(self._request_code)].response
        try:
            return from_fields(response_type, self.ext_fields)
        except FieldError as error:
            raise ProtocolError(f"answer to {RequestCode(self._request_code).name}: {error}") from None

    def error(self, address: str = "") -> BrokerError:
        """The error that stands for this response's code."""
        return broker_error(self.code, self.remark, address)

    def check(self, address: str = "") -> Response:
        """This response if its code is success. Raises the ``BrokerError`` of its code otherwise."""
        if self._command.code != 0:
            raise self.error(address)
        return self


class Invocations:
    """The table of what waits for an answer, by opaque, and its deadlines: one timer for all of them.

    ``peer`` is for the texts of errors.
    """

    __slots__ = ("_create_future", "_deadlines", "_loop", "_now", "_sweep_at", "_timer", "_timer_at", "peer", "table")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.peer: str = "unknown"
        self._loop = loop
        self._now = loop.time
        self._create_future = loop.create_future
        self.table: dict[int, tuple[int, asyncio.Future[Response]]] = {}
        """Opaque to request code and future; always the same dict."""
        self._deadlines: list[tuple[float, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._sweep_at = 1024

    def __len__(self) -> int:
        return len(self.table)

    def add(self, code: int, opaque: int, timeout: float) -> asyncio.Future[Response]:
        """A request is about to be sent; the future gets its answer. Raises ``TooManyRequestsError``."""
        if len(self.table) >= MAX_INVOCATIONS:
            raise TooManyRequestsError(f"{MAX_INVOCATIONS} requests to {self.peer} wait for an answer")
        future: asyncio.Future[Response] = self._create_future()
        self.table[opaque] = (code, future)
        when, deadlines = self._now() + timeout, self._deadlines
        heappush(deadlines, (when, opaque))
        if self._timer is None or self._timer_at > when or len(deadlines) > self._sweep_at:
            self._look_after(when)
        return future

    def complete_frame(self, serialize_type: int, header: bytes, body: Body) -> bool:
        """If a frame is an answer, take it. On a client almost every frame is one."""
        if serialize_type == 0:
            try:
                answer = _decode_answer(header)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return False
            if not answer.flag & RESPONSE_FLAG:
                return False
            self.complete(answer, body)
            return True
        command = decode_header(serialize_type, header)
        if not command.is_response:
            return False
        self.complete(command, body)
        return True

    def complete(self, command: RemotingCommand | _Answer, body: Body) -> None:
        """Take an answer. One that nobody waits for (any more) is ignored."""
        code, future = self.table.pop(command.opaque, (0, None))
        if future is None:
            log.debug("answer to no request opaque=%d peer=%s", command.opaque, self.peer)
        elif not future.done():
            future.set_result(Response(command, bytes(body), code))

    def fail(self, reason: str) -> None:
        """The connection is gone, and with it everything in flight."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadlines.clear()
        waiting = list(self.table.values())
        self.table.clear()
        for _, future in waiting:
            if not future.done():
                future.set_exception(ConnectionLostError(f"connection to {self.peer} lost: {reason}"))

    def _look_after(self, when: float) -> None:
        """The heap has grown, or its first deadline is another one."""
        if len(self._deadlines) > self._sweep_at:  # most are answered long before their deadline
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self.table]
            heapq.heapify(self._deadlines)
            self._sweep_at = 2 * len(self._deadlines) + 1024
        if self._timer is None or self._timer_at > when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = when
            self._timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._timer = None
        deadlines, now = self._deadlines, self._loop.time() + 0.001
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1] not in self.table):
            _, opaque = heapq.heappop(deadlines)
            code, future = self.table.pop(opaque, (0, None))
            if future is not None and not future.done():
                future.set_exception(RequestTimeout(f"no answer to {RequestCode(code).name} from {self.peer} in time"))
        if deadlines:
            self._timer_at = deadlines[0][0]
            self._timer = self._loop.call_at(self._timer_at, self._expire)
