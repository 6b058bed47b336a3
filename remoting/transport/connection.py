"""One TCP connection, the same class on both ends: it serves the peer's requests and carries ours.

What may be read, served and written, and when that changes, is a table: ``connection_state.py``.

Reading: bytes are cut into frames, every frame of a read event is dispatched, and all answers leave
in one write, at once or at the end of the turn (``coalescing.py``). While the peer does not read,
nothing more is read from it (``flow.py``); frames that were already received wait in ``_backlog``.

Calling: ``invoke`` sends a request and awaits its answer, matched by ``opaque``. Frames sent
outside of a read event in the same turn of the loop leave in one write as well.

One file: reading, serving, calling and the end work on the same few fields.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, cast

from ..clock import Clock
from ..dispatch import Body, Dispatcher
from ..errors import ConnectionLostError
from ..outages import Cause, Outages
from ..peer import Buffer
from ..protocol.codes import RequestCode
from ..protocol.frames.frame import BrokenStream, Frame, FrameDecoder, pack_prefix
from ..protocol.frames.serialization import ONEWAY_FLAG, HeaderError, RemotingCommand, SerializeType
from ..protocol.message.message_id import pack_host
from ..protocol.wire import Record
from ..responses import Response
from .address import format_address, host_and_port
from .buffers import Buffers
from .coalescing import Coalescing
from .connection_state import ANSWERING, ASKING, START, Event
from .direct_write import MUCH_BYTES, socket_of, stays_as_it_is, unwritten
from .farewell import Farewell
from .flow import FlowControl, Limits, long_header_bytes
from .invocations import Invocations, Waiter, encode_request, next_opaque, request_head
from .signs_of_life import SignsOfLife

log: Final = logging.getLogger(__name__)

_SLICE_MS: Final = 2
"""So many milliseconds have begun since a peer's requests are served one after the other: others
have a turn."""
_MOST_QUEUED: Final = 8
"""Long requests of one peer that wait for their turn (``sliced_requests.py``): those behind them
are not read. Nobody who waits for answers has so many, and who does not would have them pile up."""
_LARGE_READ_BYTES: Final = 128 << 10
"""Bytes in one read that say that there may be much more (uvloop reads 250 KiB at once)."""


class ConnectionOwner(Protocol):
    """The server or client that a connection belongs to."""

    limits: Limits
    dispatcher: Dispatcher
    outages: Outages

    @property
    def clock(self) -> Clock: ...
    def connected(self, connection: Connection) -> None: ...
    def disconnected(self, connection: Connection) -> None: ...
    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> object: ...


class Connection(asyncio.Protocol):
    """See the module. Attributes: ``peer`` and ``local`` are ``ip:port``; ``attributes`` is free
    for whoever owns it."""

    __slots__ = (
        "__weakref__", "_backlog", "_buffers", "_clock", "_coalescing", "_counted", "_counted_held",
        "_decoder", "_ended", "_flow", "_flush_due", "_handle", "_invocations", "_loop", "_owner",
        "_queued_requests", "_request_bytes", "_serialize_type", "_signs", "_socket", "_state",
        "_time_ms", "_transport", "_waiting", "_write_pause_bytes", "answer_bytes", "attributes",
        "close_reason", "closed", "in_flight", "limits", "local", "max_in_flight", "on_close",
        "out", "outages", "packed_peer", "peer", "silent",
    )  # fmt: skip

    def __init__(
        self,
        owner: ConnectionOwner,
        *,
        serialize_type: int = SerializeType.JSON,
        pause_reading: bool = True,
        silence_s: float | None = None,
        coalescing: Coalescing | None = None,
        buffers: Buffers | None = None,
    ) -> None:
        """``pause_reading``: while the peer does not read, read nothing more from it. Right for
        whoever answers; who asks has to go on reading, or two that wait for each other would wait
        for ever. ``silence_s``: how long a peer may say nothing at all before a request that it
        does not answer in time ends the connection."""
        self._owner = owner
        self._state = (ANSWERING if pause_reading else ASKING)[START]
        self._clock = owner.clock
        self.outages: Outages = owner.outages
        self.limits: Limits = (limits := owner.limits)
        self._serialize_type = serialize_type
        self._decoder = FrameDecoder(
            limits.max_frame_bytes, long_header_bytes=long_header_bytes(limits)
        )
        self._flow = FlowControl(limits)
        self._handle = owner.dispatcher.handle
        self._time_ms = owner.clock.time_ms
        self._write_pause_bytes = limits.write_pause_bytes
        self._transport: asyncio.Transport | None = None
        self._socket = -1
        self._loop = asyncio.get_running_loop()
        self.out: list[Buffer] = []
        """Encoded frames that have not been written. Whoever puts the first one there has to see to
        ``flush``."""
        self._coalescing = coalescing
        self._buffers = buffers
        self._counted = 0
        self._counted_held = 0
        """Bytes that ``buffers`` was told of, and those of an incomplete frame among them."""
        self._request_bytes = self._queued_requests = 0
        self._flush_due = False
        """What is put into ``out`` leaves: frames are being served, or ``flush`` was scheduled."""
        self._backlog: deque[Frame] = deque()
        self._invocations = Invocations(self._loop, self._not_answered)
        self._waiting = self._invocations.table
        now, loop_now = self._clock.monotonic(), self._loop.time()
        self._signs = SignsOfLife(now, loop_now, idle_s=limits.idle_s, silence_s=silence_s)
        self.answer_bytes: int = 0
        """See ``Peer``."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.max_in_flight: int = limits.max_in_flight
        self.in_flight: int = 0
        """Requests of the peer that were not answered yet."""
        self.closed: bool = self._state.closed
        self.close_reason: str = ""
        self.peer: str = "unknown"
        self.local: str = "unknown"
        self.attributes: dict[str, Any] = {}
        self.on_close: list[Callable[[Connection], None]] = []
        self.silent: bool = False
        """It was given up because its peer said nothing any more."""

    def __repr__(self) -> str:
        return f"<Connection {self.peer}{' closed' if self.closed else ''}>"

    # --- transport callbacks
    # ----------------------------------------------------------------------------------------

    def _happens(self, event: Event) -> None:
        """Go on to the next state. What may be read from now on is read by ``_go_on``."""
        before, self._state = self._state, self._state.after[event]
        self.closed = self._state.closed
        if before.reads and not self._state.reads:
            self._read_nothing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self.limits.write_pause_bytes)
        host, port = host_and_port(transport.get_extra_info("peername"))
        self.peer = self._invocations.peer = format_address(host, port)
        self.packed_peer: bytes = pack_host(host, port)
        self._socket = socket_of(transport)
        self.local = format_address(*host_and_port(transport.get_extra_info("sockname")))
        self._happens(Event.MADE)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        self._signs.heard = True
        broken: BrokenStream | None = None
        try:
            frames = self._decoder.feed(data)
        except BrokenStream as error:
            frames, broken = error.frames, error
        if self._decoder.held != self._counted_held:
            self._count()
        if self._backlog:
            self._backlog.extend(frames)
        elif frames or broken is not None:
            self.serve(frames)
        if broken is not None:
            self._refuse(str(broken))
        elif len(data) >= _LARGE_READ_BYTES:
            self._let_others_in()

    def _let_others_in(self) -> None:
        """Go on with this peer in the next turn of the loop. It may have sent more than is served
        in a moment, and libuv reads, up to 32 times in a row, while the system has more: from a
        producer with 60,000 sends in flight that is 8 MB, over 200 ms in which nobody else is
        served, and which ``fast_failure`` takes for overload."""
        if self._read_nothing():
            self._loop.call_soon(self._go_on)

    def _read_nothing(self) -> bool:
        """From now on; False when it is closed, and left to ``farewell.py``, which reads to the
        end."""
        if self._transport is None or self.closed or self._transport.is_closing():
            return False
        self._transport.pause_reading()
        return True

    def _go_on(self) -> None:
        """Serve the frames that wait, then read on, unless something else stopped that
        meanwhile."""
        if self.closed or self._state.stalled:
            return  # what was not begun when it is closed is not done: nobody could be told
        if self._backlog:
            frames = list(self._backlog)
            self._backlog.clear()
            self.serve(frames)
        if self._transport is not None and self._state.reads and not self._backlog:
            self._transport.resume_reading()

    def _count(self) -> None:
        """Tell how much is buffered here because of this peer."""
        self._counted_held = self._decoder.held
        if self._buffers is None or self.closed or self._transport is None:
            return
        backlog = sum(len(header) + len(body) for _, header, body in self._backlog)
        self._counted = (
            self._decoder.held
            + backlog
            + self._request_bytes
            + self._transport.get_write_buffer_size()
        )
        self._buffers.hold(self, self._counted)

    def weigh(self, size: int) -> None:
        """A request of so many bytes is worked on in a task; negative: not any more. The peer is
        read meanwhile: the task may wait for an answer of its."""
        self._request_bytes += size
        self._count()

    def enqueued(self, size: int) -> None:
        """A request of so many bytes waits here for its turn, in a task that counts for itself.
        With a few of them nothing more is read from the peer."""
        self._request_bytes += size
        self._queued_requests += 1
        if self._queued_requests == _MOST_QUEUED:
            self._happens(Event.QUEUE_FULL)
        self._count()

    def dequeued(self, size: int) -> None:
        """It does not wait any more."""
        self._request_bytes -= size
        self._queued_requests -= 1
        if self._queued_requests == _MOST_QUEUED - 1:
            self._happens(Event.QUEUE_FREE)
            self._loop.call_soon(self._go_on)
        self._count()

    def hold_back(self) -> None:
        """Read nothing more from this peer until ``go_on``: all of them together hold too much."""
        self._happens(Event.HOLD_BACK)

    def go_on(self) -> None:
        """Undo ``hold_back``."""
        self._happens(Event.GO_ON)
        self._go_on()

    def pause_writing(self) -> None:
        self._flow.stop(self._clock.monotonic())
        self._count()
        self._happens(Event.PAUSE_WRITING)

    def resume_writing(self) -> None:
        waited = self._state.stalled
        self._flow.resume()
        self._count()
        self._happens(Event.RESUME_WRITING)
        if waited:
            self._go_on()

    def stop_reading(self) -> None:
        """Take no more requests. Those that were received are served and answered."""
        self._happens(Event.STOP)

    def connection_lost(self, exc: Exception | None) -> None:
        self._happens(Event.LOST)
        reason = self.close_reason or (f"{type(exc).__name__}: {exc}" if exc else "closed by peer")
        self.close_reason = reason
        self._invocations.fail(reason)
        self._backlog.clear()
        self._decoder.drop()  # this object may live on in circles until a collection finds them
        self.out.clear()
        if self._buffers is not None:
            self._buffers.hold(self, 0)
        for callback in self.on_close:
            callback(self)
        self._owner.disconnected(self)
        self._ended.set_result(None)

    # --- serving
    # ----------------------------------------------------------------------------------------------

    def serve(self, frames: list[Frame]) -> None:
        """Dispatch frames; their answers leave in one write. Stops where the peer has too much to
        read already, and where it would keep others waiting."""
        if self._backlog:  # these came before
            self._backlog.extend(frames)
            return
        handle, out, waiting, limit = self._handle, self.out, self._waiting, self._write_pause_bytes
        time_ms = self._time_ms
        now_ms = time_ms()
        was_due, self._flush_due = self._flush_due, True
        served = 0
        try:
            for serialize_type, header, body in frames:
                served += 1
                if waiting and self._invocations.complete_frame(serialize_type, header, body):
                    continue
                handle(self, serialize_type, header, body, now_ms, out)
                if self.answer_bytes > limit and self._give_way(frames, served):
                    return
                if (
                    not served & 3
                    and (self._state.stalled or time_ms() - now_ms >= _SLICE_MS)
                    and served < len(frames)
                ):
                    self._backlog.extend(frames[served:])
                    self._let_others_in()
                    return
        except HeaderError as error:
            self._refuse(str(error))
        finally:
            coalescing = self._coalescing
            if (
                coalescing is None
                or self.answer_bytes >= MUCH_BYTES
                or not coalescing.waits(now_ms)
            ):
                self.flush()
            else:
                self._flush_due = was_due or bool(out)
                if out and not was_due:
                    coalescing.add(self, now_ms)

    def _give_way(self, frames: list[Frame], start: int) -> bool:
        """Send what there is; if the peer does not read it, keep the other frames for later. True
        if serving has to stop."""
        self.flush()
        self._flush_due = True
        if self._state.stalled and start < len(frames):
            self._backlog.extendleft(reversed(frames[start:]))
            return True
        return False

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in a task that the owner of this connection owns."""
        self._owner.spawn(coroutine)

    def _refuse(self, text: str) -> None:
        self._tell("connection refused", text)
        self.close(text)

    # --- sending
    # ----------------------------------------------------------------------------------------------

    def send(self, pieces: list[Buffer]) -> None:
        """Queue encoded frames; they leave with everything else of this turn of the loop."""
        self.out += pieces
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was queued, in one call."""
        self._flush_due = False
        out, transport = self.out, self._transport
        if not out or transport is None:
            return
        much, self.answer_bytes = self.answer_bytes >= MUCH_BYTES, 0
        if self.closed:
            out.clear()
            return
        if not much:
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        elif left := unwritten(self._socket, transport, out):
            transport.write(left)
        out.clear()
        if self._flow.stopped and (
            why := self._flow.verdict(transport.get_write_buffer_size(), self._clock.monotonic())
        ):
            self.cut(why)

    def close(self, reason: str = "closed", *, longest_s: float | None = None) -> None:
        """Close after what was written has been sent, unless the peer does not take it
        (``farewell.py``); ``longest_s``: how long one that does may take, ``shutdown_grace_s`` when
        it is None."""
        if not self.closed and self._transport is not None:
            self.flush()
            self.close_reason = self.close_reason or reason
            self._happens(Event.CLOSE)
            self._invocations.fail(self.close_reason)
            longest_s = self.limits.shutdown_grace_s if longest_s is None else longest_s
            Farewell(self._loop, self._transport, self.connection_lost, longest_s)

    def cut(self, reason: str) -> None:
        """End it at once; what was not sent is lost."""
        self._tell("connection cut", reason)
        self.close_reason = reason
        self._happens(Event.CUT)
        if self._transport is not None:
            self._transport.abort()

    def tell_of(
        self,
        log: logging.Logger,
        kind: Cause,
        message: str,
        *args: object,
        level: int = logging.WARNING,
        exc_info: BaseException | None = None,
    ) -> None:
        """See ``Peer``."""
        cause = (self.peer.rpartition(":")[0], *kind)
        self.outages.occurs(log, cause, message, *args, level=level, exc_info=exc_info)

    def _tell(self, what: str, reason: str) -> None:
        self.tell_of(log, (what,), what + " peer=%s reason=%s", self.peer, reason)

    def oldest_send_s(self) -> float:
        """See ``Invocations``."""
        return self._invocations.oldest_send_s()

    @property
    def writable(self) -> bool:
        """It is open, and its peer has not too much to read already."""
        return self._state.writable

    @property
    def busy(self) -> bool:
        """Something is still to be answered."""
        return bool(self.out or self._backlog)

    async def wait_closed(self) -> None:
        """Return when the connection has ended."""
        if self._ended.done():
            return
        await asyncio.wait([self._ended])

    def check(self, now: float) -> None:
        """House-keeping, once a second: cut a peer that does not read, close a connection that is
        idle."""
        if self.closed or self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if why := self._flow.verdict(unread, now):
            self.cut(why)
            return
        if self._counted or self._backlog or unread:
            self._count()
        if (idle_s := self._signs.idle(now, self._loop.time())) is not None:
            log.info("connection idle peer=%s seconds=%.0f", self.peer, idle_s)
            self.close("idle")

    def _not_answered(self, begun: float) -> None:
        """Requests were given up, the first of which was sent at ``begun``."""
        if (
            not self.closed
            and (silent := self._signs.silence(begun, self._loop.time())) is not None
        ):
            self.silent = True
            self.cut(f"nothing has come for {silent:.1f} s while requests waited for their answers")

    # --- calling
    # ----------------------------------------------------------------------------------------------

    def invoke(
        self,
        code: RequestCode,
        header: Record | None = None,
        body: Buffer = b"",
        *,
        timeout: float,
        ext_fields: dict[str, str] | None = None,
    ) -> asyncio.Future[Response]:
        """Send a request; its answer comes through the future, whatever its code.

        ``timeout`` in seconds. ``ext_fields`` go on top of the header's. Raises
        ``TooManyRequestsError``, and ``FrameError`` for a body that no frame can carry; the future
        raises ``RequestTimeout``, ``ConnectionLostError``.
        """
        if self.closed:
            future: asyncio.Future[Response] = self._loop.create_future()
            future.set_exception(
                ConnectionLostError(f"connection to {self.peer} is closed: {self.close_reason}")
            )
            return future
        opaque, size = next_opaque(), len(body)
        head = request_head(self._serialize_type, code, header, size, opaque, ext_fields=ext_fields)
        future = self._invocations.add(code, opaque, timeout)
        self._signs.spoke = True
        if size >= MUCH_BYTES and stays_as_it_is(body):
            self.answer_bytes += size
            self.send([head, body])
        else:
            self.send([b"".join((head, body))])
        return future

    def invoke_encoded(
        self, code: int, opaque: int, header: bytes, body: Buffer, timeout: float,
        behind: Buffer = b"", waiter: Waiter | None = None,
    ) -> Any:  # fmt: skip
        """As ``invoke`` with a JSON header that the caller has made, with ``opaque`` in it, and a
        body that fits a frame: for what is sent again and again. For a ``Send`` the answer may be
        its typed header. ``behind``: the rest of the body, where it is long; it is not copied, and
        must not change. ``waiter``: told instead of a future. The connection must not be closed,
        and its headers must be JSON."""
        future = self._invocations.add(code, opaque, timeout, waiter)
        self._signs.spoke = True
        header_length, more = len(header), len(behind)
        self.out += (pack_prefix(4 + header_length + len(body) + more, header_length), header, body)
        if more:
            self.out.append(behind)
            self.answer_bytes += more
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)
        return future

    def invoke_oneway(
        self,
        code: RequestCode,
        header: Record | None = None,
        body: Buffer = b"",
        *,
        ext_fields: dict[str, str] | None = None,
        remark: str | None = None,
    ) -> None:
        """Send a request that is not answered. Raises ``ConnectionLostError`` when the connection
        is known to be closed."""
        if self.closed:
            raise ConnectionLostError(f"connection to {self.peer} is closed: {self.close_reason}")
        form, flag = self._serialize_type, ONEWAY_FLAG
        frame = encode_request(
            form, code, header, body, next_opaque(), flag, ext_fields=ext_fields, remark=remark
        )
        self._signs.spoke = True
        self.send([frame])

    def complete(self, command: RemotingCommand, body: Body) -> None:
        """Take the answer to a request of ours."""
        self._invocations.complete(command, body)
