"""The calling side: one connection per address, made on demand, made again after a loss."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import re
import socket
import ssl
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from ..clock import Clock
from ..dispatch import Dispatcher
from ..errors import ClientClosedError, ConnectError, ConnectionLostError, NothingListensError
from ..outages import Outages
from ..peer import Buffer
from ..protocol.codes import LanguageCode, RequestCode
from ..protocol.frames.serialization import RemotingCommand, SerializeType, encode_header
from ..protocol.wire import Record, to_fields
from ..responses import Response
from ..services import TaskSet
from ..signature import Credentials, signed
from ..system_clock import SystemClock
from .address import split_address
from .blocking_connection import BlockingCalls
from .config import ClientSettings
from .connection import Connection
from .flow import Limits
from .invocations import next_opaque

log: Final = logging.getLogger(__name__)

_FIRST_BACK_OFF_S = 0.05
_LONGEST_BACK_OFF_S = 2.0
_LONGEST_AFTER_REFUSAL_S = 0.5
"""Where nothing listens an attempt costs 0.2 ms, and whoever waits for a server that is restarted
wants it soon."""
_LONGEST_SILENCE_S = 1.0
"""A request that times out ends its connection when nothing at all has come for so long. (The
original closes it whatever else comes; clientCloseSocketIfTimeout.)"""


class _Peer(msgspec.Struct, eq=False):
    """What is known of one address."""

    connection: Connection | None = None
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    failure: str = ""
    failures: int = 0
    not_before: float = 0.0
    tried_s: float = 0.0
    """For how long it was waited for at the most since it answered last."""


class RemotingClient:
    """Invokes requests at addresses (``host:port``).

    Connections are shared by all callers of an address, closed when idle, and made again when
    needed. After a failed attempt further ones are refused at once for a back-off of 50 ms,
    doubling to 2 s (0.5 s where nothing listens), and then given a third of ``connect_timeout``: a
    dead peer costs its callers little, there may be another one to ask. Who would wait for longer
    than was waited in vain is not refused. Who has no other waits for as long as ``back_off`` says.
    ``ext_fields`` go with every request. ``dispatcher`` serves what is pushed over these
    connections. Use as ``async with``, or call ``start`` and ``close``.
    """

    def __init__(
        self,
        settings: ClientSettings | None = None,
        *,
        clock: Clock | None = None,
        dispatcher: Dispatcher | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        ext_fields: dict[str, str] | None = None,
        name: str = "client",
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.outages: Outages = Outages(self.clock)
        self.dispatcher: Dispatcher = dispatcher or Dispatcher({})
        self._settings = settings = settings or ClientSettings()
        self.limits: Limits = settings.limits
        self._tls = tls
        self.credentials: Credentials | None = credentials
        """What requests are signed with."""
        self._ext_fields = ext_fields
        self._connect_timeout = settings.connect_timeout
        self._serialize_type = settings.serialize_type
        self._peers: dict[str, _Peer] = {}
        self._tasks = TaskSet(name)
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Begin house-keeping (idle connections, peers that do not read)."""
        if not self._started:
            self._started = True
            self._tasks.spawn(self._house_keeping(), name="house-keeping")

    async def close(self) -> None:
        """Close every connection; what is in flight fails with ``ConnectionLostError``."""
        self._closed = True
        lost = [peer.connection for peer in self._peers.values() if peer.connection is not None]
        for connection in lost:
            connection.close("client closed")
        try:
            await self._tasks.close()
        finally:
            for connection in lost:
                await connection.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.close()

    # --- calling
    # ----------------------------------------------------------------------------------------------

    async def invoke(
        self,
        address: str,
        code: RequestCode,
        header: Record | None = None,
        body: Buffer = b"",
        *,
        timeout: float = 3.0,
        ext_fields: dict[str, str] | None = None,
    ) -> Response:
        """Send a request and await its answer, whatever its code; ``timeout`` (seconds) includes
        connecting.

        Raises ``ConnectError`` (not sent), ``RequestTimeout``, ``ConnectionLostError``,
        ``TooManyRequestsError``.
        """
        connection = self.connected_to(address)
        if connection is None:
            loop = asyncio.get_running_loop()
            start = loop.time()
            connection = await self.connection(address, timeout=timeout)
            timeout = max(0.001, timeout - (loop.time() - start))
        if self._ext_fields is not None:
            ext_fields = {**self._ext_fields, **(ext_fields or {})}
        if self.credentials is not None:
            ext_fields = self._signed(header, body, ext_fields)
            header = None
        return await connection.invoke(code, header, body, timeout=timeout, ext_fields=ext_fields)

    async def invoke_as(
        self,
        language: LanguageCode,
        address: str,
        code: RequestCode,
        header: Record,
        *,
        timeout: float = 3.0,
    ) -> Response:
        """As ``invoke``, in the name of another language: some answers, and what is pushed then,
        depend on it."""
        connection = await self.connection(address, timeout=timeout)
        if connection.closed:  # it ended while this task waited for its turn
            raise ConnectionLostError(
                f"connection to {address} is closed: {connection.close_reason}"
            )
        fields = to_fields(header) if self.credentials is None else self._signed(header, b"", None)
        command = RemotingCommand(
            code=code, language=language, opaque=next_opaque(), ext_fields=fields
        )
        answer: Response = await connection.invoke_encoded(
            code, command.opaque, encode_header(command), b"", timeout
        )
        return answer

    async def invoke_oneway(
        self,
        address: str,
        code: RequestCode,
        header: Record | None = None,
        body: Buffer = b"",
        *,
        timeout: float = 3.0,
        ext_fields: dict[str, str] | None = None,
        remark: str | None = None,
    ) -> None:
        """Send a request that is not answered; ``timeout`` (seconds) is for connecting. Raises as
        ``invoke``."""
        connection = self.connected_to(address) or await self.connection(address, timeout=timeout)
        if self._ext_fields is not None:
            ext_fields = {**self._ext_fields, **(ext_fields or {})}
        if self.credentials is not None:
            ext_fields = self._signed(header, body, ext_fields)
            header = None
        connection.invoke_oneway(code, header, body, ext_fields=ext_fields, remark=remark)

    def _signed(
        self, header: Record | None, body: Buffer, ext_fields: dict[str, str] | None
    ) -> dict[str, str]:
        assert self.credentials is not None
        fields = {**(to_fields(header) if header is not None else {}), **(ext_fields or {})}
        return signed(self.credentials, fields, bytes(body))

    @property
    def sends_plain_json(self) -> bool:
        """Headers are JSON, with nothing added but the signature where there are ``credentials``:
        whoever makes both may use ``Connection.invoke_encoded``."""
        return self._serialize_type == SerializeType.JSON and self._ext_fields is None

    # --- connections
    # ----------------------------------------------------------------------------------------------

    def connected_to(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one."""
        peer = self._peers.get(address)
        if peer is None or peer.connection is None or peer.connection.closed:
            return None
        return peer.connection

    async def connection(self, address: str, *, timeout: float | None = None) -> Connection:
        """The connection to an address, made if need be. Raises ``ConnectError``,
        ``ClientClosedError``."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = _Peer()
        patience = self._connect_timeout if not peer.failures else self._connect_timeout / 3
        budget = patience if timeout is None else min(timeout, patience)
        tries = False
        try:
            async with asyncio.timeout(budget), peer.lock:
                if peer.connection is None or peer.connection.closed:
                    tries = True
                    await self._connect(address, peer, budget)
        except TimeoutError:
            why = f"no answer within {budget:.2g} s"
            if tries:  # the others have waited for that attempt
                self._failed(peer, why, tried_s=budget)
            raise ConnectError(f"cannot connect to {address}: {why}") from None
        assert peer.connection is not None
        return peer.connection

    def back_off(self, address: str) -> float:
        """Seconds for which an attempt to connect would be refused at once, because one has just
        failed."""
        peer = self._peers.get(address)
        return max(0.0, peer.not_before - self.clock.monotonic()) if peer is not None else 0.0

    async def _connect(self, address: str, peer: _Peer, budget: float) -> None:
        if self._closed:
            raise ClientClosedError(f"cannot connect to {address}: this client is closed")
        if (wait := self.back_off(address)) > 0 and budget <= peer.tried_s:
            raise ConnectError(
                f"cannot connect to {address}: {peer.failure}; the next attempt is made in "
                f"{wait:.2f} s"
            )
        try:
            peer.connection = await self._open(*split_address(address))
        except (OSError, ssl.SSLError) as error:
            refused = _is_refused(error)
            self._failed(
                peer,
                _connect_reason(error),
                _LONGEST_AFTER_REFUSAL_S if refused else _LONGEST_BACK_OFF_S,
            )
            kind = NothingListensError if refused else ConnectError
            raise kind(f"cannot connect to {address}: {peer.failure}") from None
        peer.failures, peer.not_before, peer.tried_s = 0, 0.0, 0.0
        if self._closed:
            peer.connection.close("client closed")
            raise ClientClosedError(f"cannot connect to {address}: this client is closed")

    async def _open(self, host: str, port: int) -> Connection:
        """Raises ``OSError``, ``ssl.SSLError``."""
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(
                self,
                serialize_type=self._serialize_type,
                pause_reading=False,
                silence_s=_LONGEST_SILENCE_S,
            ),
            host,
            port,
            ssl=self._tls,
        )
        self._settings.socket_buffers.set_on(transport.get_extra_info("socket"))
        return connection

    def _failed(
        self,
        peer: _Peer,
        why: str,
        longest_s: float = _LONGEST_BACK_OFF_S,
        *,
        tried_s: float = math.inf,
    ) -> None:
        """``tried_s``: how long it was waited for; without it, it has failed by itself."""
        peer.failure, peer.tried_s = why, max(peer.tried_s, tried_s)
        peer.not_before = self.clock.monotonic() + min(
            longest_s, _FIRST_BACK_OFF_S * 2 ** min(peer.failures, 10)
        )
        peer.failures += 1

    def try_again(self, address: str) -> None:
        """The next call connects at once, whatever came of the last attempt: for who comes seldom,
        with a back-off of its own.
        """
        if (peer := self._peers.get(address)) is not None:
            peer.not_before = 0.0

    def connect_blocking(self, address: str, timeout: float) -> BlockingCalls:
        """A connection for the calling thread alone; ``timeout`` in seconds. Raises
        ``ConnectError``. May be called in any thread: nothing here knows of it, its owner closes
        it."""
        budget, limit = min(timeout, self._connect_timeout), self.limits.max_frame_bytes
        return BlockingCalls(address, budget, tls=self._tls, max_frame_bytes=limit)

    def addresses(self) -> list[str]:
        """Addresses with an open connection."""
        return [address for address in self._peers if self.connected_to(address) is not None]

    async def _house_keeping(self) -> None:
        while True:
            await self.clock.sleep(1.0)
            now = self.clock.monotonic()
            for peer in list(self._peers.values()):
                if peer.connection is not None:
                    peer.connection.check(now)

    # --- ConnectionOwner
    # --------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        log.debug("connected peer=%s", connection.peer)

    def disconnected(self, connection: Connection) -> None:
        log.debug("disconnected peer=%s reason=%s", connection.peer, connection.close_reason)
        if connection.silent:
            for peer in self._peers.values():
                if peer.connection is connection:
                    self._failed(peer, connection.close_reason)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        return self._tasks.spawn(coroutine)


def _connect_reason(error: OSError) -> str:
    if _is_refused(error):
        return "connection refused (nothing listens there)"
    if isinstance(error, socket.gaierror):
        return f"unknown host ({error.strerror})"
    return error.strerror or str(error) or type(error).__name__


def _is_refused(error: OSError) -> bool:
    """By every address that the host's name has (``localhost`` often has two): of several errors
    asyncio makes one text."""
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
    return isinstance(error, ConnectionRefusedError) or numbers == {str(errno.ECONNREFUSED)}
