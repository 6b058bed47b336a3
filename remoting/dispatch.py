"""From a frame to a handler and back: the one dispatch mechanism, for every command, on servers and
on clients.

A leaf (``protocol.leaves``: ``Headers``) reads the code and the typed header straight from the
bytes of a request as almost all clients write it: JSON with its keys in any order, or binary. What
it leaves alone (an answer, another form, an odd value, a mistake) goes the general way, through a
dict of text, to the same typed header. Property tests hold both equal.

``handler(request, body, ctx)`` returns

* a ``Reply``: the answer;
* ``PENDING``: it keeps ``ctx`` and answers later with ``ctx.reply``; no future and no task per
  request;
* ``None``: there is no answer.

An ``async def`` handler runs in a task owned by the connection's owner. ``body`` is valid during
the call only (``async`` handlers get a copy). A handler that raises ``RequestError`` answers with
its code; any other exception is answered with code 1 and logged, as a bug unless it says that it is
none (``is_operating``): one request must not end a connection, so here stands the one broad
``except`` of a daemon (``docs/design/broad-excepts.md``).

One file: the way of a request to its answer, and all ways on which it fails, are read in one place.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from struct import error as StructError
from typing import Any, Final, cast

import msgspec

from .errors import RequestError
from .peer import Buffer, Peer
from .protocol.codes import LanguageCode, RequestCode, ResponseCode
from .protocol.commands import COMMANDS
from .protocol.frames.frame import LONG_HEADER, encode_prefix
from .protocol.frames.frame import Body as Body
from .protocol.frames.serialization import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    HeaderError,
    RemotingCommand,
    TooManyKeysError,
    decode_head,
    decode_header,
    encode_header,
)
from .protocol.frames.templates import (
    NO_HEADER,
    HeaderEncoder,
    encoder_for,
    fields_piece,
    remark_piece,
)
from .protocol.leaves import Headers
from .protocol.wire import FieldError, Record, from_texts, to_fields

log: Final = logging.getLogger(__name__)

TASK_BYTES: Final = 4096
"""Bytes of memory, about, that a request takes while it waits in a task, besides header and body.
"""
NOT_SET_REMARK = "not set any response code"
"""The remark of a reply whose handler set nothing but the code (quirk ``MISLEADING_REMARK``)."""


class Reply(msgspec.Struct, gc=False):
    """An answer. ``header`` is an instance of the command's response Record, or ``None`` for a
    reply without one."""

    code: int = 0
    header: Record | None = None
    body: bytes | bytearray | memoryview = b""
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    """Pairs on top of those of the header (relayed answers)."""


_OVERLOAD = Reply(
    ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]system busy, start flow control for a while"
)


class PendingType(enum.Enum):
    PENDING = enum.auto()


PENDING = PendingType.PENDING
"""Returned by a handler that will answer later, through ``ctx.reply``."""

Outcome = Reply | bytes | PendingType | None
"""What a handler returns. ``bytes``: the finished frame of an answer, in the form of its request
(``reply_frames``)."""
SyncHandler = Callable[[Any, Body, "Context"], Outcome]
AsyncHandler = Callable[[Any, Body, "Context"], Awaitable[Outcome]]
Handler = SyncHandler | AsyncHandler
ProcessorTable = Mapping[RequestCode, Handler]
HeaderReader = Callable[[int, bytes, int, Peer], "Context | None"]
"""Form, header, time of receipt and connection to a request; ``None``: it is left to the general
way."""
Guard = Callable[["Context", Body], Reply | None]
"""Looks at a request before its handler does (ACL, hooks, limits); a ``Reply`` refuses it."""


class Context(msgspec.Struct, gc=False):
    """What a handler needs to know that the header does not say. (Its fields stand in the order
    that ``Headers`` sets.)"""

    request: Any
    """The typed header."""
    code: int
    opaque: int
    flag: int
    version: int
    """The peer's version (ordinal of MQVersion), see ``codes.version_name``."""
    received_at_ms: int
    connection: Peer
    serialize_type: int
    raw_header: bytes

    @property
    def oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    @property
    def peer(self) -> str:
        return self.connection.peer

    @property
    def command(self) -> RemotingCommand:
        """The header in its general form, decoded now."""
        return decode_header(self.serialize_type, self.raw_header)

    @property
    def ext_fields(self) -> dict[str, str]:
        """Everything that was in extFields, also what the typed header does not know. Decoded
        now."""
        return self.command.ext_fields or {}

    @property
    def language(self) -> LanguageCode | None:
        return self.command.language

    @property
    def remark(self) -> str | None:
        return self.command.remark

    def reply(self, reply: Reply | bytes) -> None:
        """Answer a request whose handler returned ``PENDING``. Does nothing when the connection is
        gone."""
        connection = self.connection
        connection.in_flight -= 1
        if not connection.closed:
            out: list[Buffer] = []
            if isinstance(reply, Reply):
                encode_reply(self, reply, out)
            elif not self.oneway:
                out.append(reply)
            connection.send(out)


def reply_together(answers: Iterable[tuple[Context, Reply | bytes]]) -> None:
    """As ``ctx.reply`` for many requests that were ``PENDING``: one write per connection, now."""
    connections: list[Peer] = []
    for ctx, answer in answers:
        if type(ctx) is not Context:  # somebody wants to see it first
            ctx.reply(answer)
            continue
        connection = ctx.connection
        connection.in_flight -= 1
        if connection.closed:
            continue
        out = connection.out
        if not out:  # else it is about to send what is there
            connections.append(connection)
        if isinstance(answer, Reply):
            encode_reply(ctx, answer, out)
        elif not ctx.flag & ONEWAY_FLAG:
            out.append(answer)
    for connection in connections:
        connection.flush()


def encode_reply(ctx: Context, reply: Reply, out: list[Buffer]) -> None:
    """Append the frame of an answer, in the form of its request. A oneway request gets none.

    An answer that this form or a frame cannot carry (it may be that of a client, passed on) becomes
    SYSTEM_ERROR.
    """
    if ctx.flag & ONEWAY_FLAG:
        return
    try:
        header, body = reply.header, reply.body
        if ctx.serialize_type == 0:
            encoder = _ENCODERS[type(header)]
            if reply.code == 0 and reply.remark is None and reply.ext_fields is None:
                encoded = encoder.plain(header, ctx.opaque)
            else:
                remark = b"" if reply.remark is None else remark_piece(reply.remark)
                extra = fields_piece(reply.ext_fields) if reply.ext_fields else b""
                encoded = encoder.full(reply.code, header, RESPONSE_FLAG, ctx.opaque, remark, extra)
        else:
            encoded = _in_other_form(ctx, reply)
        out.append(encode_prefix(ctx.serialize_type, len(encoded), len(body)) + encoded)
        if body:
            out.append(body)
            ctx.connection.answer_bytes += len(body)
    except (ValueError, StructError) as error:
        _tell(ctx, "answer cannot be sent code=%d error=%s", ctx.code, error, level=logging.WARNING)
        encode_reply(
            ctx, Reply(ResponseCode.SYSTEM_ERROR, remark=f"the answer cannot be sent: {error}"), out
        )


def _in_other_form(ctx: Context, reply: Reply) -> bytes:
    """Raises ``ValueError`` or ``struct.error`` for what the form cannot carry."""
    fields = None if reply.header is None else to_fields(reply.header)
    if reply.ext_fields:
        fields = {**(fields or {}), **reply.ext_fields}
    command = RemotingCommand(
        code=reply.code,
        flag=RESPONSE_FLAG,
        opaque=ctx.opaque,
        remark=reply.remark,
        ext_fields=fields,
    )
    return encode_header(command, ctx.serialize_type)


class _Encoders(dict[type, HeaderEncoder]):
    """Header type to encoder; a lookup is cheaper than a call."""

    def __missing__(self, header_type: type[Record]) -> HeaderEncoder:
        encoder = self[header_type] = encoder_for(header_type)
        return encoder


_ENCODERS = _Encoders({type(None): NO_HEADER})


def in_task(handler: AsyncHandler) -> SyncHandler:
    """An ``async def`` handler as one that answers later, from a task that the connection's owner
    owns."""

    async def run(request: Any, body: Body, ctx: Context, weight: int) -> None:
        outcome: Outcome | BaseException
        try:
            (outcome,) = await asyncio.gather(handler(request, body, ctx), return_exceptions=True)
        finally:
            ctx.connection.weigh(-weight)
        if isinstance(outcome, Exception):
            outcome = _failure(ctx, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        if outcome is None:
            ctx.connection.in_flight -= 1
        elif outcome is not PENDING:
            ctx.reply(outcome)

    def spawn(request: Any, body: Body, ctx: Context) -> Outcome:
        weight = len(ctx.raw_header) + len(body) + TASK_BYTES
        ctx.connection.weigh(weight)
        ctx.connection.spawn(run(request, bytes(body), ctx, weight))
        return PENDING

    return spawn


def _compiled(handler: Handler, guard: Guard | None) -> SyncHandler:
    """One row of the table: a plain function, whatever the handler is, behind its guard, chained
    once."""
    plain = in_task(handler) if inspect.iscoroutinefunction(handler) else cast(SyncHandler, handler)
    if guard is None:
        return plain

    def guarded(request: Any, body: Body, ctx: Context) -> Outcome:
        refusal = guard(ctx, body)
        return refusal if refusal is not None else plain(request, body, ctx)

    return guarded


class Dispatcher:
    """Knows the handlers of a daemon (or of a client, for what brokers push) and answers frames
    with them."""

    def __init__(
        self, table: ProcessorTable, *, guard: Guard | None = None, read: HeaderReader | None = None
    ) -> None:
        """``read``: of a port with headers of its own form, how they are read."""
        self._guard: Final = guard
        self._entries = self._compile(table)
        self._read: Final = (
            read or Headers({int(code): COMMANDS[code].request for code in table}, Context).read
        )

    def use(self, table: ProcessorTable) -> None:
        """Other handlers of the same requests, from the next request on (a broker has another
        role). Raises ``ValueError`` when the table has other requests."""
        entries = self._compile(table)
        if entries.keys() != self._entries.keys():
            raise ValueError("a table with other requests needs another Dispatcher")
        self._entries = entries

    def _compile(self, table: ProcessorTable) -> dict[int, SyncHandler]:
        return {int(code): _compiled(handler, self._guard) for code, handler in table.items()}

    def handle(
        self,
        connection: Peer,
        serialize_type: int,
        header: bytes,
        body: Body,
        received_at_ms: int,
        out: list[Buffer],
    ) -> None:
        """Serve one frame; its answer, if there is one now, is appended to ``out``.

        Raises ``HeaderError`` when the header cannot be read at all.
        """
        ctx = self._read(serialize_type, header, received_at_ms, connection)
        if ctx is None:
            ctx = self._general(connection, serialize_type, header, body, received_at_ms, out)
            if ctx is None:
                return
        if connection.in_flight >= connection.max_in_flight:
            waiting = connection.in_flight
            text = "request refused, %d of this connection wait (maxInFlight) code=%d"
            _tell(ctx, text, waiting, ctx.code, level=logging.WARNING)
            encode_reply(ctx, _OVERLOAD, out)
            return
        try:
            outcome = self._entries[ctx.code](ctx.request, body, ctx)
        except Exception as error:  # noqa: BLE001 - the one broad except: a request must not end its connection
            outcome = _failure(ctx, error)
        if isinstance(outcome, bytes):
            if not ctx.flag & ONEWAY_FLAG:
                out.append(outcome)
        elif outcome is PENDING:
            connection.in_flight += 1
        elif outcome is not None:
            encode_reply(ctx, outcome, out)

    def _general(
        self,
        connection: Peer,
        serialize_type: int,
        header: bytes,
        body: Body,
        received_at_ms: int,
        out: list[Buffer],
    ) -> Context | None:
        """The general way: any form of header, whatever is odd or wrong in it, an answer to a
        request of ours.

        ``None``: there is nothing more to do. Raises ``HeaderError``.
        """
        serialize_type &= ~LONG_HEADER
        too_large: str | None = None
        try:
            if len(header) > connection.limits.max_header_bytes:
                command = decode_head(serialize_type, header)
                too_large = (
                    f"the header has {len(header)} bytes, the limit is "
                    f"maxHeaderBytes={connection.limits.max_header_bytes}"
                )
            else:
                command = decode_header(
                    serialize_type, header, max_keys=connection.limits.max_header_keys
                )
        except TooManyKeysError as error:
            command, too_large = decode_head(serialize_type, header), str(error)
        if command.is_response:
            if too_large is not None:
                raise HeaderError(too_large)
            connection.complete(command, body)
            return None
        ctx = Context(
            None,
            command.code,
            command.opaque,
            command.flag,
            command.version,
            received_at_ms,
            connection,
            serialize_type,
            header,
        )
        if too_large is not None:
            log.info(
                "request refused code=%d peer=%s reason=%s", ctx.code, connection.peer, too_large
            )
            encode_reply(ctx, Reply(ResponseCode.SYSTEM_ERROR, remark=too_large), out)
        elif command.code not in self._entries:
            encode_reply(ctx, _not_supported(ctx), out)
        elif (refusal := _read_fields(ctx, command)) is not None:
            encode_reply(ctx, refusal, out)
        else:
            return ctx
        return None


def _read_fields(ctx: Context, command: RemotingCommand) -> Reply | None:
    """The typed header; what is wrong with it, if something is."""
    try:
        ctx.request = from_texts(COMMANDS[RequestCode(ctx.code)].request, command.ext_fields or {})
    except FieldError as error:
        return _bad_request(ctx, error)
    return None


def _not_supported(ctx: Context) -> Reply:
    _tell(ctx, "request not supported code=%d", ctx.code)
    return Reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {ctx.code} not supported"
    )


def _bad_request(ctx: Context, error: Exception) -> Reply:
    name = RequestCode(ctx.code).name
    _tell(ctx, "bad request code=%s error=%s", name, error)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}")


def _failure(ctx: Context, error: Exception) -> Reply:
    if isinstance(error, RequestError):
        return Reply(error.code, remark=error.remark)
    if isinstance(error, FieldError):
        return _bad_request(ctx, error)
    name = RequestCode(ctx.code).name
    if getattr(error, "is_operating", False):
        ctx.connection.outages.occurs(  # whoever is answered so asks again
            log,
            ("operating", str(error)),
            "request cannot be served just now code=%s reason=%s",
            name,
            error,
            level=logging.ERROR,
        )
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}")
    if isinstance(error, ValueError):
        return _bad_request(ctx, error)
    _tell(ctx, "handler failed code=%s", name, level=logging.ERROR, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


def _tell(
    ctx: Context,
    what: str,
    *args: object,
    level: int = logging.INFO,
    exc_info: BaseException | None = None,
) -> None:
    connection = ctx.connection
    kind = what, type(exc_info).__name__
    what += " peer=%s"
    connection.tell_of(log, kind, what, *args, connection.peer, level=level, exc_info=exc_info)
