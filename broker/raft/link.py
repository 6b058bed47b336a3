"""The connection to one other member: requests go out in order, answers come back in any.

It is made when there is something to send, made again after a loss, and proves the secret first,
where there is one. A request that cannot be sent, or is not answered in time, is told as such; when
to send something again is the member's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Final

from ...remoting.errors import ConnectError, RocketMQError
from ...remoting.outages import Outages, without_figures
from ...remoting.peer import Buffer
from ...remoting.protocol.codes import VERSION, RequestCode
from ...remoting.responses import Response
from ...remoting.transport.client import RemotingClient
from ...remoting.transport.connection import Connection
from ...remoting.transport.invocations import next_opaque
from ...store.replica.replication import ReplicationError
from ...store.replica.replication_secret import NONCE_BYTES, SlaveHandshake
from .door import OK
from .lookup import Lookup, Spawn

log: Final = logging.getLogger(__name__)

CONNECT_S: Final = 1.0
"""Whoever is behind a network that drops everything is tried once in so long."""
PROVE_S: Final = 3.0
"""For each step of the handshake."""
MAX_WAITING: Final = 64
"""Requests that wait for a connection. A member asks each other one thing at a time as long as it
does not answer, so more are none that matter any more."""

_MOST_TROUBLES: Final = 8
"""That are told apart: their texts may be the other member's."""

Answered = Callable[[bytes | None], None]
"""Told the body of an answer, or ``None``: there was none."""


class PeerLink:
    """``flush`` after a round of ``send``: what was sent leaves at once, in one write."""

    def __init__(
        self, peer: str, address: str, client: RemotingClient, secret: bytes, spawn: Spawn
    ) -> None:
        self.peer: Final = peer
        self.address: Final = address
        self._client = client
        self._secret: Final = secret
        self._spawn = spawn
        self._lookup: Final = Lookup(address, spawn)
        self._connection: Connection | None = None
        self._opening = False
        self._takes_bytes = False
        self._waiting: list[tuple[int, bytes, float, Answered]] = []
        self._troubles: set[str] = set()
        self._outages = Outages(client.clock)

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    @property
    def takes_bytes(self) -> bool:
        """Whoever is at the other end of this connection has said that it does; another one may
        come behind the next."""
        connection = self._connection
        return self._takes_bytes and connection is not None and not connection.closed

    @takes_bytes.setter
    def takes_bytes(self, says_so: bool) -> None:
        self._takes_bytes = says_so

    def send(
        self, code: int, body: bytes, timeout_s: float, answered: Answered, behind: Buffer = b""
    ) -> None:
        """``timeout_s`` begins when it is written. ``behind``: the rest of the body."""
        connection = self._connection
        if connection is None or connection.closed:
            self._waiting.append((code, b"".join((body, behind)), timeout_s, answered))
            if len(self._waiting) > MAX_WAITING:
                self._waiting.pop(0)[3](None)
            if not self._opening:
                self._opening = True
                self._spawn(self._open())
            return
        opaque = next_opaque()
        connection.invoke_encoded(
            code,
            opaque,
            _HEADER % (code, opaque),
            body,
            timeout_s,
            behind,
            _Waiter(self, answered),
        )

    def flush(self) -> None:
        if self._connection is not None:
            self._connection.flush()

    def not_answered(self, trouble: str, answered: Answered) -> None:
        """A request of somebody, for this reason."""
        self._log(trouble)
        answered(None)

    def works(self) -> None:
        """The other member has answered."""
        if self._troubles:
            self._troubles.clear()
            self._outages.all_work()

    async def _open(self) -> None:
        """One attempt. What waits is sent then, or told that it was not."""
        opened: Connection | None = None
        try:
            opened = await self._connect()
            if self._secret:
                await _prove(opened, self._secret)
        except (RocketMQError, ReplicationError) as error:
            self._log(str(error))
            opened = None
        finally:
            self._opening, self._connection, self._takes_bytes = False, opened, False
            waiting, self._waiting = self._waiting, []
        for code, body, timeout_s, answered in waiting:
            if opened is None:
                answered(None)
            else:
                self.send(code, body, timeout_s, answered)
        self.flush()

    async def _connect(self) -> Connection:
        """To the first of its addresses that lets us. Raises ``RocketMQError``."""
        try:
            async with asyncio.timeout(CONNECT_S):
                *others, last = await self._lookup.addresses()
        except TimeoutError:
            raise ConnectError(f"nobody says where {self.address} is") from None
        for address in others:
            with contextlib.suppress(RocketMQError):
                return await self._connect_to(address)
        return await self._connect_to(last)

    async def _connect_to(self, address: str) -> Connection:
        self._client.try_again(address)
        return await self._client.connection(address, timeout=CONNECT_S)

    def _log(self, trouble: str) -> None:
        kind = without_figures(trouble)
        if len(self._troubles) >= _MOST_TROUBLES and kind not in self._troubles:
            kind = ""
        self._troubles.add(kind)
        text = "member not reached peer=%s reason=%s"
        self._outages.fails(log, (kind,), text, self.peer, trouble)


class _Waiter:
    """For the answer to one request."""

    __slots__ = ("_answered", "_link")

    def __init__(self, link: PeerLink, answered: Answered) -> None:
        self._link = link
        self._answered = answered

    def done(self) -> bool:
        return False

    def set_result(self, response: Response) -> None:
        if response.code != OK or not response.body:
            trouble = response.remark or f"it answers code {response.code}"
            self._link.not_answered(trouble, self._answered)
        else:
            self._link.works()
            self._answered(response.body)

    def set_exception(self, error: RocketMQError) -> None:
        self._link.not_answered(str(error), self._answered)


async def _prove(connection: Connection, secret: bytes) -> None:
    """Raises ``ConnectError``, ``ReplicationError``, ``RemotingError``."""
    handshake = SlaveHandshake(secret, os.urandom(NONCE_BYTES))
    step = handshake.hello
    for _ in range(2):
        response = await connection.invoke(
            RequestCode.DLEDGER_HANDSHAKE, None, step, timeout=PROVE_S
        )
        if response.code != OK:
            raise ConnectError(response.remark or f"it answers code {response.code}")
        step = handshake.receive(response.body)
    if not handshake.done:
        raise ConnectError("it has not proved that it knows the secret (haSecret)")


_HEADER: Final = (
    b'{"code":%%d,"flag":0,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON",'
    b'"version":%d}' % VERSION
)
