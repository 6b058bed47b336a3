"""From a frame to a handler and back: the one dispatch mechanism, for every command, on servers and on clients.

Each row of the table is compiled once to an ``Entry``: how to decode the request, whom to call, how to encode the answer.
A JSON header that starts with ``{"code":N,`` is decoded by msgspec straight into the typed header (half a microsecond);
anything else (another key order, another form, a value that msgspec refuses) goes the general way, through a dict of text,
to the same typed header. A property test holds both ways equal.

``handler(request, body, ctx)`` returns

* a ``Reply``: the answer;
* ``PENDING``: it keeps ``ctx`` and answers later with ``ctx.reply``; no future and no task per request;
* ``None``: there is no answer.

An ``async def`` handler runs in a task owned by the connection's owner. ``body`` is valid during the call only (``async``
handlers get a copy). A handler that raises ``RequestError`` answers with its code; any other exception is answered with code
1 and logged, as a bug unless it says that it is none (``is_operating``): one request must not end a connection, so here
stands the one broad ``except``.
"""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from .errors import RequestError
from .protocol.binary_headers import BinaryHeaders, answer_encoder
from .protocol.codes import LanguageCode, RequestCode, ResponseCode
from .protocol.commands import COMMANDS
from .protocol.envelopes import any_of, envelope_decoder
from .protocol.frame import LONG_HEADER, MAX_FRAME_BYTES, FrameError, encode_frame, pack_prefix
from .protocol.frame import Body as Body
from .protocol.serialization import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    HeaderError,
    RemotingCommand,
    SerializeType,
    TooManyKeysError,
    decode_head,
    decode_header,
    encode_header,
)
from .protocol.templates import NO_HEADER, HeaderEncoder, encoder_for, fields_piece, remark_piece
from .protocol.wire import FieldError, Record, fields_of, from_texts, to_fields

if TYPE_CHECKING:
    from .connection import Connection

log: Final = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

NOT_SET_REMARK = "not set any response code"
"""The remark of a reply whose handler set nothing but the code (quirk ``MISLEADING_REMARK``)."""


class Reply(msgspec.Struct, gc=False):
    """An answer. ``header`` is an instance of the command's response Record, or ``None`` for a reply without one."""

    code: int = 0
    header: Record | None = None
    body: bytes | bytearray | memoryview = b""
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    """Pairs on top of those of the header (relayed answers)."""


class PendingType(enum.Enum):
    PENDING = enum.auto()


PENDING = PendingType.PENDING
"""Returned by a handler that will answer later, through ``ctx.reply``."""

Outcome = Reply | bytes | PendingType | None
"""What a handler returns. ``bytes``: the finished JSON header of a good answer without a body, made by a
``templates.ReplyTemplate``; only for a request whose ``serialize_type`` is JSON."""
SyncHandler = Callable[[Any, Body, "Context"], Outcome]
AsyncHandler = Callable[[Any, Body, "Context"], Awaitable[Outcome]]
Handler = SyncHandler | AsyncHandler
ProcessorTable = Mapping[RequestCode, Handler]
Guard = Callable[["Context", Body], Reply | None]
"""Looks at a request before its handler does (ACL, hooks, limits); a ``Reply`` refuses it."""


class Context(msgspec.Struct, gc=False):
    """What a handler needs to know that the header does not say."""

    request: Any
    """The typed header."""
    code: int
    opaque: int
    flag: int
    version: int
    """The peer's version (ordinal of MQVersion), see ``codes.version_name``."""
    received_at_ms: int
    connection: Connection
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
        """Everything that was in extFields, also what the typed header does not know. Decoded now."""
        return self.command.ext_fields or {}

    @property
    def language(self) -> LanguageCode | None:
        return self.command.language

    @property
    def remark(self) -> str | None:
        return self.command.remark

    def reply(self, reply: Reply | bytes) -> None:
        """Answer a request whose handler returned ``PENDING``. Does nothing when the connection is gone."""
        connection = self.connection
        connection.in_flight -= 1
        if not connection.closed:
            out: list[Buffer] = []
            if isinstance(reply, Reply):
                encode_reply(self, reply, out)
            elif not self.oneway:
                out.append(encode_frame(0, reply))
            connection.send(out)


def reply_together(answers: Iterable[tuple[Context, Reply | bytes]]) -> None:
    """As ``ctx.reply`` for many requests that were ``PENDING``: one write per connection, now."""
    connections: list[Connection] = []
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
            length = len(answer)
            out.append(_PREFIXES[length] + answer if length < _MANY else encode_frame(0, answer))
    for connection in connections:
        connection.flush()


def encode_reply(ctx: Context, reply: Reply, out: list[Buffer]) -> None:
    """Append the frame of an answer, in the form of its request. A oneway request gets none.

    An answer that this form or a frame cannot carry (it may be that of a client, passed on) becomes SYSTEM_ERROR.
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
            length = len(encoded)
            if body:
                total = 4 + length + len(body)
                if total > _MAX_TOTAL:
                    raise FrameError(f"a frame of {total + 4} bytes is over the limit of {MAX_FRAME_BYTES}")
                out.append(pack_prefix(total, length) + encoded)
                out.append(body)
                ctx.connection.answer_bytes += len(body)
            elif length < _MANY:
                out.append(_PREFIXES[length] + encoded)
            else:
                out.append(encode_frame(0, encoded))
        else:
            out.append(_encode_other_form(ctx, reply))
            ctx.connection.answer_bytes += len(body)
    except (ValueError, StructError) as error:
        log.warning("answer cannot be sent code=%d peer=%s error=%s", ctx.code, ctx.connection.peer, error)
        encode_reply(ctx, Reply(ResponseCode.SYSTEM_ERROR, remark=f"the answer cannot be sent: {error}"), out)


def _encode_other_form(ctx: Context, reply: Reply) -> bytes:
    """Raises ``ValueError`` or ``struct.error`` for what the form cannot carry."""
    if ctx.serialize_type == _ROCKETMQ and reply.code == 0 and reply.remark is None and reply.ext_fields is None:
        header_type = None if reply.header is None else type(reply.header)
        return encode_frame(_ROCKETMQ, answer_encoder(header_type)(reply.header, ctx.opaque), reply.body)
    fields = None if reply.header is None else to_fields(reply.header)
    if reply.ext_fields:
        fields = {**(fields or {}), **reply.ext_fields}
    command = RemotingCommand(code=reply.code, flag=RESPONSE_FLAG, opaque=ctx.opaque, remark=reply.remark, ext_fields=fields)
    return encode_frame(ctx.serialize_type, encode_header(command, ctx.serialize_type), reply.body)


class _Encoders(dict[type, HeaderEncoder]):
    """Header type to encoder; a lookup is cheaper than a call."""

    def __missing__(self, header_type: type[Record]) -> HeaderEncoder:
        encoder = self[header_type] = encoder_for(header_type)
        return encoder


_ROCKETMQ: Final = SerializeType.ROCKETMQ.value
_ENCODERS = _Encoders({type(None): NO_HEADER})
_MANY = 1024
_MAX_TOTAL = MAX_FRAME_BYTES - 4
_PREFIXES = [pack_prefix(4 + length, length) for length in range(_MANY)]
"""The first 8 bytes of answers without a body, by the length of their header."""


class Entry:
    """One row of the table, compiled. ``handler`` is a plain function, whatever the row's handler is."""

    __slots__ = ("_true_texts", "code", "decode", "flagged", "handler", "request_type")

    def __init__(self, code: RequestCode, handler: Handler, guard: Guard | None = None) -> None:
        self.code: int = int(code)
        plain = in_task(handler) if inspect.iscoroutinefunction(handler) else cast(SyncHandler, handler)
        self.handler: SyncHandler = plain if guard is None else _guarded(plain, guard)
        self.request_type: type[Record] = COMMANDS[code].request
        self.decode: Callable[[bytes], Any] = self._decode_first
        """JSON header to envelope; raises what ``UNREADABLE`` holds where only the general way can tell."""
        self.flagged: Callable[[Any], bool] | None = None
        """Whether one of the header's booleans is set; ``None`` when it has none. Known when a header was decoded."""
        self._true_texts: list[tuple[str, bytes, bytes]] = []

    def _decode_first(self, header: bytes) -> Any:
        """Makes the decoder. Not at the start: of the 120 commands of a broker most are never used."""
        flags = [f for f in fields_of(self.request_type) if f.kind is bool]
        self.flagged = any_of([f.name for f in flags])
        self._true_texts = [(f.name, f'"{f.wire_name}":"true"'.encode(), f'"{f.wire_name}":true'.encode()) for f in flags]
        self.decode = envelope_decoder(self.request_type)
        return self.decode(header)

    def really_flagged(self, fields: Any, header: bytes) -> bool:
        """msgspec takes "1" for true, the original does not: where something is true the text itself is looked at."""
        for name, quoted, bare in self._true_texts:
            if getattr(fields, name) and quoted not in header and bare not in header:
                return False
        return True


_SAY_AGAIN_MS: Final = 60_000
_MOST_TOLD: Final = 100
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


_SMALL: Final = 4096
"""Header and body of a request that waits in a task; what is longer counts for the memory budget."""


def in_task(handler: AsyncHandler) -> SyncHandler:
    """An ``async def`` handler as one that answers later, from a task that the connection's owner owns."""

    async def run(request: Any, body: Body, ctx: Context, weight: int) -> None:
        try:
            outcome = await handler(request, body, ctx)
        except Exception as error:  # noqa: BLE001 - as in Dispatcher.handle
            outcome = _failure(ctx, error)
        finally:
            if weight:
                ctx.connection.weigh(-weight)
        if outcome is None:
            ctx.connection.in_flight -= 1
        elif outcome is not PENDING:
            ctx.reply(outcome)

    def spawn(request: Any, body: Body, ctx: Context) -> Outcome:
        size = len(ctx.raw_header) + len(body)
        weight = size if size > _SMALL else 0
        if weight:
            ctx.connection.weigh(weight)
        ctx.connection.spawn(run(request, bytes(body), ctx, weight))
        return PENDING

    return spawn


def _guarded(handler: SyncHandler, guard: Guard) -> SyncHandler:
    """The handler behind its guard, chained once when the table is made."""

    def guarded(request: Any, body: Body, ctx: Context) -> Outcome:
        refusal = guard(ctx, body)
        return refusal if refusal is not None else handler(request, body, ctx)

    return guarded


class Dispatcher:
    """Knows the handlers of a daemon (or of a client, for what brokers push) and answers frames with them."""

    def __init__(self, table: ProcessorTable, *, guard: Guard | None = None) -> None:
        self._entries = {int(code): Entry(code, handler, guard) for code, handler in table.items()}
        self._by_prefix = {_prefix(code): entry for code, entry in self._entries.items()}
        self._binary = BinaryHeaders({code: entry.request_type for code, entry in self._entries.items()})

    def handle(  # noqa: C901 - the hot path is one function: calls cost
        self,
        connection: Connection,
        serialize_type: int,
        header: bytes,
        body: Body,
        received_at_ms: int,
        out: list[Buffer],
    ) -> None:
        """Serve one frame; its answer, if there is one now, is appended to ``out``.

        Raises ``HeaderError`` when the header cannot be read at all.
        """
        entry = self._by_prefix.get(header[:_PREFIX_BYTES])
        ctx: Context | None = None
        if entry is not None and serialize_type == 0:
            try:
                envelope = entry.decode(header)
            except UNREADABLE:
                pass
            else:
                request, flag = envelope.extFields, envelope.flag
                flagged = entry.flagged
                if (
                    envelope.code == entry.code
                    and not flag & RESPONSE_FLAG
                    and (flagged is None or not flagged(request) or entry.really_flagged(request, header))
                ):
                    ctx = Context(
                        request, entry.code, envelope.opaque, flag, envelope.version, received_at_ms, connection, 0, header
                    )
        if ctx is None:
            found = self._general(connection, serialize_type, header, body, received_at_ms, out)
            if found is None:
                return
            entry, ctx = found
        assert entry is not None
        if connection.in_flight >= connection.max_in_flight:
            encode_reply(ctx, _OVERLOAD, out)
            return
        try:
            outcome = entry.handler(ctx.request, body, ctx)
        except Exception as error:  # noqa: BLE001 - the one broad except: a request must not end its connection
            outcome = _failure(ctx, error)
        if isinstance(outcome, bytes):
            if not ctx.flag & ONEWAY_FLAG:
                length = len(outcome)
                out.append(_PREFIXES[length] + outcome if length < _MANY else encode_frame(0, outcome))
        elif outcome is PENDING:
            connection.in_flight += 1
        elif outcome is not None:
            encode_reply(ctx, outcome, out)

    def _general(
        self,
        connection: Connection,
        serialize_type: int,
        header: bytes,
        body: Body,
        received_at_ms: int,
        out: list[Buffer],
    ) -> tuple[Entry, Context] | None:
        """A frame that is not in the usual form: any header form, any order of keys, an answer to a request of ours.

        ``None``: there is nothing more to do. Raises ``HeaderError``.
        """
        if serialize_type == _ROCKETMQ and (known := self._binary.decode(header)) is not None:
            code, version, opaque, flag, request = known
            ctx = Context(request, code, opaque, flag, version, received_at_ms, connection, serialize_type, header)
            return self._entries[code], ctx
        serialize_type &= ~LONG_HEADER
        too_large: str | None = None
        try:
            if len(header) > connection.limits.max_header_bytes:
                command = decode_head(serialize_type, header)
                too_large = _too_long(len(header), connection.limits.max_header_bytes)
            else:
                command = decode_header(serialize_type, header, max_keys=connection.limits.max_header_keys)
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
        entry = self._entries.get(command.code)
        if too_large is not None:
            log.info("request refused code=%d peer=%s reason=%s", ctx.code, connection.peer, too_large)
            encode_reply(ctx, Reply(ResponseCode.SYSTEM_ERROR, remark=too_large), out)
        elif entry is None:
            encode_reply(ctx, _not_supported(ctx), out)
        elif (refusal := _read_fields(entry, ctx, command)) is not None:
            encode_reply(ctx, refusal, out)
        else:
            return entry, ctx
        return None


def _too_long(length: int, limit: int) -> str:
    return f"the header has {length} bytes, the limit is maxHeaderBytes={limit}"


_PREFIX_BYTES = 12


def _prefix(code: int) -> bytes:
    """How a JSON header of a code begins when its keys stand in the usual order: ``{"code":310,`` or ``{"code":11,"``."""
    return f'{{"code":{code},"'.encode()[:_PREFIX_BYTES]


_OVERLOAD = Reply(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]system busy, start flow control for a while")


def _read_fields(entry: Entry, ctx: Context, command: RemotingCommand) -> Reply | None:
    """The general way to the typed header; what is wrong with it, if something is."""
    try:
        ctx.request = from_texts(entry.request_type, command.ext_fields or {})
    except FieldError as error:
        return _bad_field(ctx, error)
    return None


def _not_supported(ctx: Context) -> Reply:
    log.info("request not supported code=%d peer=%s", ctx.code, ctx.connection.peer)
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {ctx.code} not supported")


def _bad_field(ctx: Context, error: FieldError) -> Reply:
    name = RequestCode(ctx.code).name
    log.info("bad request code=%s peer=%s error=%s", name, ctx.connection.peer, error)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}")


_told: Final[dict[str, int]] = {}
"""When (ms) which trouble was told last."""


def _say_operating(name: str, trouble: str, now_ms: int) -> None:
    """Once a minute: whoever is answered so asks again."""
    if not 0 <= now_ms - _told.get(trouble, -_SAY_AGAIN_MS) < _SAY_AGAIN_MS:
        if len(_told) >= _MOST_TOLD:
            _told.clear()
        _told[trouble] = now_ms
        log.error("request cannot be served just now code=%s reason=%s", name, trouble)


def _failure(ctx: Context, error: Exception) -> Reply:
    if isinstance(error, RequestError):
        return Reply(error.code, remark=error.remark)
    if isinstance(error, FieldError):
        return _bad_field(ctx, error)
    name = RequestCode(ctx.code).name
    if getattr(error, "is_operating", False):
        _say_operating(name, str(error), ctx.received_at_ms)
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}")
    if isinstance(error, ValueError):
        log.info("bad request code=%s peer=%s error=%s", name, ctx.connection.peer, error)
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{name}: {error}")
    log.error("handler failed code=%s peer=%s", name, ctx.connection.peer, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
