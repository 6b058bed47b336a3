"""Pulling without a client: requests by template, over a blocking connection whose frames stay
where they arrived (remoting.md §1; headers.md §A.3).

An executor only pulls, and whoever waits for the answers is a thread that does nothing else; so
there is no event loop here, no object per message. Connections are kept for the next task of this
process.
"""

from __future__ import annotations

import os
import ssl
import threading
from typing import ClassVar, Final, Protocol

import msgspec

from ...remoting.errors import BrokerError, ProtocolError, broker_error
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from ...remoting.protocol.frames.frame import encode_frame, pack_prefix
from ...remoting.protocol.frames.serialization import (
    RESPONSE_FLAG,
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import to_fields
from ...remoting.signature import Credentials, signed
from ...remoting.transport.blocking_connection import BlockingConnection
from .connection_options import ConnectionOptions
from .frame_buffer import FrameBuffer, PlacedFrame

__all__ = [
    "BYTES_PER_PULL",
    "Connections",
    "PullAnswer",
    "PullHeader",
    "PullRequests",
    "Wire",
    "read_answer",
]

CONNECT_TIMEOUT_S: Final = 3.0
_MOST_IDLE: Final = 64
BYTES_PER_PULL: Final = 1 << 18
"""What brokers give by default. Ours do not count messages then; others give 32."""


# --- requests and answers
# -------------------------------------------------------------------------------------------


class PullRequests:
    """Makes the frames that pull one queue. ``topic`` and ``group`` are the cluster's names."""

    def __init__(
        self,
        queue: MessageQueue,
        topic: str,
        group: str,
        expression: str,
        *,
        is_sql: bool,
        credentials: Credentials | None,
    ) -> None:
        self._credentials = credentials
        self._fields = to_fields(
            PullMessageRequest(
                consumer_group=group,
                topic=topic,
                queue_id=queue.queue_id,
                queue_offset=0,
                max_msg_nums=0,
                sys_flag=PullSysFlag.SUBSCRIPTION,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription=expression,
                sub_version=0,
                expression_type="SQL92" if is_sql else "TAG",
                bname=queue.broker_name,
                max_msg_bytes=BYTES_PER_PULL,
            )
        )
        self._template = _template(self._fields)

    def frame(self, opaque: int, offset: int, count: int) -> bytes:
        if self._credentials is None:
            header = self._template % (count, offset, opaque)
            return pack_prefix(4 + len(header), len(header)) + header
        fields = {**self._fields, "queueOffset": str(offset), "maxMsgNums": str(count)}
        fields = signed(self._credentials, fields, b"")
        return encode_frame(0, encode_header(_command(fields, opaque)))


def _command(fields: dict[str, str], opaque: int) -> RemotingCommand:
    return RemotingCommand(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext_fields=fields)


def _template(fields: dict[str, str]) -> bytes:
    """The header with holes for maxMsgNums, queueOffset and opaque, in this order: JSON has its
    keys as they are given."""
    holes = ("maxMsgNums", "queueOffset")
    ordered = {
        **dict.fromkeys(holes, "0"),
        **{name: text for name, text in fields.items() if name not in holes},
    }
    text = encode_header(_command(ordered, 0)).replace(b"%", b"%%")
    for before, after in (
        (b'"maxMsgNums":"0"', b'"maxMsgNums":"%d"'),
        (b'"queueOffset":"0"', b'"queueOffset":"%d"'),
        (b'"opaque":0,', b'"opaque":%d,'),
    ):
        head, found, tail = (
            text.partition(before) if before[1:2] != b"o" else text.rpartition(before)
        )
        if not found:
            raise ValueError(f"{before!r} is not in {text!r}")
        text = head + after + tail
    return text


class PullHeader(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """What an answer says of the queue; -1 where a refusal does not say it."""

    next_begin_offset: int = -1
    min_offset: int = -1
    max_offset: int = -1
    suggest_which_broker_id: int = 0
    damaged_msg_nums: int = 0
    """So many messages our brokers have left out."""


class PullAnswer(msgspec.Struct, rename={"header": "extFields"}, frozen=True, gc=False):
    """An answer to a pull, but for its body."""

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    header: PullHeader = PullHeader()

    def error(self, address: str) -> BrokerError:
        return broker_error(self.code, self.remark, address)


_decode_json: Final = msgspec.json.Decoder(PullAnswer, strict=False).decode
"""Not strict: numbers among extFields are text."""


def read_answer(form: int, header: bytes) -> PullAnswer | None:
    """``None`` for what is no answer (brokers push requests, too). Raises ``ProtocolError``."""
    try:
        answer = _decode_json(header) if form == SerializeType.JSON else _decoded(form, header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answer = _decoded(form, header)  # JSON as others may write it
    return answer if answer.flag & RESPONSE_FLAG else None


def _decoded(form: int, header: bytes) -> PullAnswer:
    try:
        command = decode_header(form, header)
        pull_header = msgspec.convert(command.ext_fields or {}, PullHeader, strict=False)
    except (HeaderError, msgspec.ValidationError) as error:
        raise ProtocolError(f"the answer to a pull cannot be read: {error}") from None
    return PullAnswer(command.code, command.opaque, command.flag, command.remark, pull_header)


# --- the connection
# -------------------------------------------------------------------------------------------------


class Wire(Protocol):
    """One connection to a broker. Timeouts in seconds."""

    @property
    def address(self) -> str: ...

    def send(self, data: bytes, timeout: float) -> None:
        """Raises ``ConnectionLostError``, ``RequestTimeout``."""
        ...

    def receive(self, timeout: float) -> list[PlacedFrame]:
        """What came, at least one frame. Raises ``ConnectionLostError``, ``RequestTimeout``,
        ``ProtocolError``."""
        ...

    def close(self) -> None: ...


class SocketWire(BlockingConnection[PlacedFrame]):
    """A ``Wire`` over TCP or TLS: frames stay where they arrived. Raises ``ConnectError``."""

    def __init__(
        self, address: str, tls: ssl.SSLContext | None, timeout: float = CONNECT_TIMEOUT_S
    ) -> None:
        super().__init__(address, timeout, tls)
        self._frames = FrameBuffer()
        self._receive_into = self._socket.recv_into

    def _read(self) -> list[PlacedFrame] | None:
        count = self._receive_into(self._frames.get_buffer())
        return self._frames.buffer_updated(count) if count else None

    def receive(self, timeout: float) -> list[PlacedFrame]:
        """What came, at least one frame; each piece of it within ``timeout`` seconds."""
        while True:
            if frames := super().receive(timeout):
                return frames

    def rest(self) -> None:
        """It is not used for a while."""
        self._frames.release()


class Connections:
    """Connections that nobody uses at present, of this process, by address, account and TLS. A
    worker may live for months, and brokers come and go: where there are too many, the one that was
    not used for longest is closed."""

    _idle: ClassVar[list[tuple[SocketWire, ConnectionOptions]]] = []
    _contexts: ClassVar[dict[ConnectionOptions, ssl.SSLContext | None]] = {}
    _guard = threading.Lock()

    @classmethod
    def take(cls, address: str, options: ConnectionOptions) -> Wire:
        """An open connection to a broker. Raises ``ConnectError``, ``TlsError``."""
        while True:
            with cls._guard:
                wire = cls._pop(address, options)
                if options not in cls._contexts:
                    cls._contexts[options] = options.ssl_context()
                context = cls._contexts[options]
            if wire is None:
                return SocketWire(address, context)
            if wire.is_open():
                return wire
            wire.close()

    @classmethod
    def give_back(cls, wire: Wire, options: ConnectionOptions) -> None:
        """Nothing is under way on it."""
        if isinstance(wire, SocketWire):
            wire.rest()
            with cls._guard:
                cls._idle.append((wire, options))
                if len(cls._idle) <= _MOST_IDLE:
                    return
                wire, _ = cls._idle.pop(0)
        wire.close()

    @classmethod
    def _pop(cls, address: str, options: ConnectionOptions) -> SocketWire | None:
        """The one that was used last."""
        for at in range(len(cls._idle) - 1, -1, -1):
            wire, its_options = cls._idle[at]
            if wire.address == address and its_options == options:
                del cls._idle[at]
                return wire
        return None

    @classmethod
    def idle(cls) -> int:
        """How many there are."""
        with cls._guard:
            return len(cls._idle)

    @classmethod
    def close_all(cls) -> None:
        """The next task makes new ones."""
        with cls._guard:
            waiting, cls._idle, cls._contexts = cls._idle, [], {}
        for wire, _ in waiting:
            wire.close()

    @classmethod
    def forget(cls) -> None:
        """In a forked child: these belong to the parent."""
        cls._idle, cls._contexts, cls._guard = [], {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Connections.forget)
