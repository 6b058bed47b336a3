"""Who may connect to a member's port, and who may do what there."""

from __future__ import annotations

import asyncio
from typing import Any

from aiorocketmq.broker.raft.door import MAX_PER_MEMBER, MAX_PER_STRANGER, MAX_STRANGERS, Door
from aiorocketmq.remoting.dispatch import Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, decode_header
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.invocations import encode_request
from aiorocketmq.store.replica.replication_secret import SlaveHandshake

from ...sim import ManualClock, SimOwner, SimTransport, connect, receive

SECRET = b"sixteen bytes ..."


class Lookups:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def door(
    secret: bytes = b"",
    allowed: str = "",
    lookups: Lookups | None = None,
    clock: ManualClock | None = None,
) -> Door:
    made = Door(
        secret,
        lambda host: host == allowed,
        lambda: b"n" * 16,
        lookups or Lookups(),
        clock or ManualClock(),
    )
    made.members_are(["10.0.0.1", "10.0.0.2", "fe80::2"])
    return made


def test_strangers_have_few_connections_and_members_their_own() -> None:
    lookups = Lookups()
    it = door(lookups=lookups)
    for number in range(MAX_STRANGERS):
        assert it.enter(f"10.9.{number // MAX_PER_STRANGER}.1") is None
    assert lookups.count == MAX_STRANGERS, "a member may have another address now"
    assert "no member's" in str(it.enter("10.8.8.8"))
    assert "no member's" in str(it.enter("10.9.0.1"))
    for _ in range(MAX_PER_MEMBER):
        assert it.enter("10.0.0.2") is None
    assert f"{MAX_PER_MEMBER} connections" in str(it.enter("10.0.0.2"))
    it.leave("10.0.0.2")
    assert it.enter("10.0.0.2") is None
    it.leave("10.9.0.1")
    assert it.enter("10.8.8.8") is None


def test_who_has_left_before_the_door_opens_is_no_stranger() -> None:
    assert door().enter("") == "it has left already"


class World:
    """A connection from an address to a server with this door."""

    def __init__(self, it: Door, host: str = "10.0.0.2") -> None:
        def votes(_request: Any, _body: Any, _ctx: Context) -> Reply:
            return Reply(200, body=b"{}")

        dispatcher = Dispatcher(
            {
                RequestCode.DLEDGER_VOTE: votes,
                RequestCode.DLEDGER_METADATA: votes,
                RequestCode.DLEDGER_HANDSHAKE: it.handshake,
            },
            guard=it.guard,
        )
        self.connection: Connection
        self.transport: SimTransport
        self.connection, self.transport = connect(SimOwner(dispatcher), (host, 4711))

    def ask(self, code: RequestCode, body: bytes = b"{}") -> tuple[RemotingCommand, bytes]:
        self.transport.written.clear()
        receive(self.connection, encode_request(0, code, None, body, 7))
        self.connection.flush()
        answer = bytes(self.transport.written)
        length = int.from_bytes(answer[5:8])
        return decode_header(0, answer[8 : 8 + length]), answer[8 + length :]


def test_only_members_vote() -> None:
    async def main() -> None:
        lookups = Lookups()
        it = door(allowed="10.7.7.7", lookups=lookups)
        for host in ("10.0.0.1", "fe80::2", "10.7.7.7"):
            header, body = World(it, host).ask(RequestCode.DLEDGER_VOTE)
            assert (header.code, body) == (200, b"{}")
        assert lookups.count == 0
        stranger = World(it, "10.9.9.9")
        header, body = stranger.ask(RequestCode.DLEDGER_VOTE)
        assert (header.code, body, lookups.count) == (16, b"", 1)
        assert "dLegerAllowedAddresses" in str(header.remark)
        header, _ = stranger.ask(RequestCode.DLEDGER_METADATA)
        assert header.code == 200, "who leads is no secret"
        it.members_are(["10.9.9.9"])
        header, _ = stranger.ask(RequestCode.DLEDGER_VOTE)
        assert header.code == 200, "a member's machine has another address now"

    asyncio.run(main())


def test_with_a_secret_only_who_proves_it_votes() -> None:
    async def main() -> None:
        it = door(SECRET)
        world, stranger = World(it), World(it, "10.0.0.1")
        header, _ = world.ask(RequestCode.DLEDGER_VOTE)
        assert header.code == 16
        assert "haSecret" in str(header.remark)
        other = SlaveHandshake(SECRET, b"o" * 16)
        _, answer = world.ask(RequestCode.DLEDGER_HANDSHAKE, other.hello)
        _, answer = world.ask(RequestCode.DLEDGER_HANDSHAKE, other.receive(answer))
        assert not it.is_member(stranger.connection)
        assert it.is_member(world.connection)
        assert world.ask(RequestCode.DLEDGER_VOTE)[0].code == 200
        assert other.receive(answer) == b""
        assert other.done, "and it knows that this is a member"

    asyncio.run(main())


def test_a_wrong_proof_is_none() -> None:
    async def main() -> None:
        world = World(door(SECRET))
        other = SlaveHandshake(b"another secret ...", b"o" * 16)
        _, answer = world.ask(RequestCode.DLEDGER_HANDSHAKE, other.hello)
        header, _ = world.ask(RequestCode.DLEDGER_HANDSHAKE, other.receive(answer))
        assert header.code == 16
        assert world.ask(RequestCode.DLEDGER_VOTE)[0].code == 16
        header, _ = world.ask(RequestCode.DLEDGER_HANDSHAKE, b"x" * 4096)
        assert header.code == 16
        header, _ = world.ask(RequestCode.DLEDGER_HANDSHAKE, b"x" * 4097)
        assert "4096 bytes at most" in str(header.remark)
        assert world.ask(RequestCode.DLEDGER_VOTE)[0].code == 16

    asyncio.run(main())


def test_a_member_without_a_secret_says_so() -> None:
    async def main() -> None:
        header, _ = World(door()).ask(
            RequestCode.DLEDGER_HANDSHAKE, SlaveHandshake(SECRET, b"o" * 16).hello
        )
        assert header.code == 16
        assert "this member has none" in str(header.remark)

    asyncio.run(main())
