"""How a member speaks with the others: its port, and a link to each of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec

from ...remoting.clock import Clock
from ...remoting.dispatch import Body, Context, Dispatcher, Outcome
from ...remoting.peer import Peer
from ...remoting.protocol.bodies.dledger import (
    REQUEST_BODIES,
    REQUEST_CODES,
    DledgerBody,
    DledgerRequestCode,
    encode_dledger,
)
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.frames.serialization import RESPONSE_FLAG
from ...remoting.protocol.wire import NoFields, i32
from ...remoting.transport.buffers import Buffers
from ...remoting.transport.client import RemotingClient
from ...remoting.transport.server import RemotingServer
from ...store.raft.ready import Outgoing
from ...store.raft.settings import RaftSettings
from ...store.replica.replication_secret import NONCE_BYTES
from .addresses import MemberAddresses
from .door import Door
from .encoding import PushEncoder
from .link import PeerLink
from .member_lists import MemberLists
from .parts import NodeSettings

log: Final = logging.getLogger(__name__)

REQUEST_S: Final = 3.0
"""After so long a request counts as not answered (dledger.md §2.1)."""
SERVED: Final = frozenset(
    {RequestCode.DLEDGER_HANDSHAKE, *(RequestCode(code) for code in REQUEST_BODIES)}
)

Received = Callable[[type[DledgerBody], NoFields, Body, Context], Outcome]
"""Handles a request of one of these kinds."""
Answered = Callable[[str, DledgerBody, bytes | None], None]
"""Told which member answered which request, and the body; ``None``: it has not answered."""


class MemberNetwork:
    """``open`` while it is in use."""

    def __init__(
        self,
        raft: RaftSettings,
        settings: NodeSettings,
        clock: Clock,
        received: Received,
        answered: Answered,
    ) -> None:
        self._raft: Final = raft
        self._secret: Final = settings.secret
        self._answered: Final = answered
        self.lists: Final = MemberLists(raft.peers, clock)
        """Told what members say of who they are."""
        self._encoder: Final = PushEncoder()
        self._door: Final = Door(
            settings.secret,
            settings.allowed,
            partial(os.urandom, NONCE_BYTES),
            self._look_up,
            clock,
        )
        self._addresses: Final = MemberAddresses(raft.peers.values(), self._door.members_are, clock)
        table: dict[RequestCode, Any] = {
            RequestCode(code): partial(received, kind) for code, kind in REQUEST_BODIES.items()
        }
        table[RequestCode.DLEDGER_HANDSHAKE] = self._door.handshake
        self.server: RemotingServer = RemotingServer(
            Dispatcher(table, guard=self._door.guard, read=read_header),
            settings.server,
            clock=clock,
        )
        self.server.doorkeeper = self._door
        self.client: RemotingClient = RemotingClient(
            settings.client, clock=clock, tls=settings.outbound, name="raft"
        )
        self._links: dict[str, PeerLink] = {}

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self.server.listen()
        raft = self._raft
        log.info(
            "member listens group=%s id=%s port=%d members=%s",
            raft.group,
            raft.self_id,
            self.server.port,
            ", ".join(f"{peer} at {address}" for peer, address in raft.peers.items()),
        )
        if not self._secret and self._addresses.others_may_be_there:
            log.warning(
                "open to the addresses of members: whoever is there may vote and write port=%d; "
                "set haSecret at all members, unless nobody else is",
                self.server.port,
            )

    def share(self, buffers: Buffers) -> None:
        """What its connections hold counts with that of the broker's other ports."""
        self.server.buffers = buffers

    def is_member(self, connection: Peer) -> bool:
        """At the other end is a member, as far as can be told."""
        return self._door.is_member(connection)

    def _look_up(self) -> None:
        self._addresses.look_up()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[asyncio.TaskGroup]:
        """The port is served and members can be asked; the group owns the tasks of both.
        ``ask`` and ``tell`` do nothing before and after."""
        async with self.client, asyncio.TaskGroup() as group:
            self._links = {
                peer: PeerLink(
                    peer, self._raft.peers[peer], self.client, self._secret, group.create_task
                )
                for peer in self._raft.others
            }
            group.create_task(self._addresses.run(), name="raft-addresses")
            group.create_task(self.server.run(), name="raft-server")
            try:
                yield group
            finally:
                self._links = {}  # who asks from now on is not answered

    # -- asking

    def send(self, requests: Iterable[Outgoing]) -> None:
        """What goes to a member leaves in one write, at once."""
        encode = self._encoder.encode
        for peer, request in requests:
            link = self._links[peer]
            body, behind = encode(request, link.takes_bytes)
            answered = partial(self._answered, peer, request)
            link.send(REQUEST_CODES[type(request)], body, REQUEST_S, answered, behind)
        self._encoder.forget()
        for link in self._links.values():
            link.flush()

    def takes_bytes(self, peer: str) -> None:
        """It has said so: from now on pushes to it have their entries as bytes, until its
        connection ends."""
        if (link := self._links.get(peer)) is not None:  # it is heard while this one closes, too
            link.takes_bytes = True

    async def ask(self, peer: str, request: DledgerBody) -> bytes | None:
        """The body of its answer; None: it has not answered, or is no other member."""
        if (link := self._links.get(peer)) is None:
            return None
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        code: DledgerRequestCode = REQUEST_CODES[type(request)]
        link.send(
            code,
            encode_dledger(request),
            REQUEST_S,
            lambda body: None if answer.done() else answer.set_result(body),
        )
        link.flush()
        return await answer

    def tell(self, peer: str, request: DledgerBody) -> None:
        """Whatever it answers."""
        if (link := self._links.get(peer)) is not None:
            code: DledgerRequestCode = REQUEST_CODES[type(request)]
            link.send(code, encode_dledger(request), REQUEST_S, lambda _body: None)
            link.flush()


class _Header(msgspec.Struct, gc=False):
    code: i32
    flag: i32 = 0
    opaque: i32 = 0
    version: i32 = 0


_decode: Final = msgspec.json.Decoder(_Header).decode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NO_FIELDS: Final = NoFields()
_SHORT_BYTES: Final = 512


def read_header(form: int, header: bytes, received_at_ms: int, connection: Peer) -> Context | None:
    """As members write it: short JSON without ext fields. ``None``: it is read the general way."""
    if form or len(header) > _SHORT_BYTES or b"extFields" in header:
        return None
    try:
        head = _decode(header)
    except _UNREADABLE:
        return None
    if head.flag & RESPONSE_FLAG or head.code not in SERVED:
        return None
    return Context(
        _NO_FIELDS,
        head.code,
        head.opaque,
        head.flag,
        head.version,
        received_at_ms,
        connection,
        form,
        header,
    )
