"""The connection to another member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq.broker.raft import link
from aiorocketmq.broker.raft.door import Door
from aiorocketmq.broker.raft.link import MAX_WAITING, PeerLink
from aiorocketmq.remoting.dispatch import Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.connection import Connection

from ...sim import ManualClock, Pipe, SimOwner

SECRET = b"sixteen bytes ..."


class World:
    """A link, and a member at the other end as long as ``there``."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, own: bytes = b"", others: bytes = b""
    ) -> None:
        self.there = True
        self.asked: list[bytes] = []
        self.answers: list[bytes | None] = []
        self.opened: list[Connection] = []
        self.answer = Reply(200, body=b"answer")
        self.clock = ManualClock()
        self.door = Door(others, lambda _: True, lambda: b"n" * 16, lambda: None, self.clock)
        self.client = RemotingClient(clock=self.clock)
        monkeypatch.setattr(self.client, "_open", self.open)
        self.tasks: list[asyncio.Task[None]] = []
        self.link = PeerLink("n1", "10.0.0.2:40912", self.client, own, self.spawn)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))

    async def open(self, host: str, port: int) -> Connection:
        assert (host, port) == ("10.0.0.2", 40912)
        if not self.there:
            raise ConnectionRefusedError
        dispatcher = Dispatcher(
            {
                RequestCode.DLEDGER_VOTE: self.serve,
                RequestCode.DLEDGER_HANDSHAKE: self.door.handshake,
            },
            guard=self.door.guard,
        )
        ours, theirs = Pipe((host, port), ("10.0.0.1", 1)), Pipe(("10.0.0.1", 1), (host, port))
        connection, other = Connection(self.client), Connection(SimOwner(dispatcher))
        for pipe, own, peer in ((ours, connection, theirs), (theirs, other, ours)):
            pipe.own, pipe.other = own, peer
            own.connection_made(pipe)
        self.opened.append(connection)
        return connection

    def serve(self, _request: Any, body: Any, _ctx: Context) -> Reply:
        self.asked.append(bytes(body))
        return self.answer

    def send(self, body: bytes, answered: Callable[[bytes | None], None] | None = None) -> None:
        self.link.send(RequestCode.DLEDGER_VOTE, body, 3.0, answered or self.answers.append)
        self.link.flush()

    async def settled(self, answers: int) -> None:
        while len(self.answers) < answers:
            await asyncio.sleep(0)


def test_requests_wait_for_a_connection_and_then_go_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        world.send(b"1")
        world.send(b"2")
        assert not world.link.connected
        await world.settled(2)
        world.send(b"3")
        await world.settled(3)
        assert world.asked == [b"1", b"2", b"3"]
        assert world.answers == [b"answer"] * 3
        assert len(world.opened) == 1

    asyncio.run(main())


class Names:
    """What answers for them."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[list[str]]] = []

    async def getaddrinfo(self, *_host: Any, **_how: Any) -> list[Any]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return [(0, 0, 0, "", (each, 0)) for each in await self.asked[-1]]


def test_a_name_is_looked_up_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has two threads for that: of one that nobody answers for all others would wait."""

    async def main() -> None:
        world, names = World(monkeypatch), Names()
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
        monkeypatch.setattr(link, "CONNECT_S", 0.0)
        client, spawn = RemotingClient(clock=world.clock), world.spawn
        to_name = PeerLink("n1", "mq-1.example:40912", client, b"", spawn)
        for number in range(5):
            to_name.send(RequestCode.DLEDGER_VOTE, b"1", 3.0, world.answers.append)
            await world.settled(number + 1)
        assert (world.answers, len(names.asked)) == ([None] * 5, 1)
        names.asked[0].set_exception(OSError("no address"))
        while len(world.tasks) > sum(each.done() for each in world.tasks):
            await asyncio.sleep(0)
        monkeypatch.setattr(client, "_open", world.open)
        monkeypatch.setattr(link, "CONNECT_S", 5.0)
        to_name.send(RequestCode.DLEDGER_VOTE, b"2", 3.0, world.answers.append)
        while len(names.asked) < 2:
            await asyncio.sleep(0)
        names.asked[1].set_result(["10.0.0.2"])
        await world.settled(6)
        assert world.answers[5] == b"answer"

    asyncio.run(main())


def test_of_several_addresses_of_a_name_one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world, names, tried = World(monkeypatch), Names(), list[str]()

        async def opens(host: str, port: int) -> Connection:
            tried.append(host)
            if host == "fd00::2":
                raise ConnectionRefusedError
            return await world.open(host, port)

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
        monkeypatch.setattr(world.client, "_open", opens)
        to_name = PeerLink("n1", "mq-1.example:40912", world.client, b"", world.spawn)
        to_name.send(RequestCode.DLEDGER_VOTE, b"1", 3.0, world.answers.append)
        while not names.asked:
            await asyncio.sleep(0)
        names.asked[0].set_result(["fd00::2", "10.0.0.2"])
        await world.settled(1)
        assert (world.answers, tried) == ([b"answer"], ["fd00::2", "10.0.0.2"])

    asyncio.run(main())


def test_a_body_of_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        for number in range(2):  # before there is a connection, and over it
            world.link.send(
                RequestCode.DLEDGER_VOTE, b"1", 3.0, world.answers.append, memoryview(b"2" * 99_999)
            )
            world.link.flush()
            await world.settled(number + 1)
        assert world.asked == [b"1" + b"2" * 99_999] * 2

    asyncio.run(main())


def test_who_comes_behind_another_connection_has_to_say_again_what_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        world.send(b"1")
        await world.settled(1)
        assert not world.link.takes_bytes
        world.link.takes_bytes = True
        assert world.link.takes_bytes
        world.opened[0].close("lost")
        assert not world.link.takes_bytes
        world.send(b"2")
        await world.settled(2)
        assert world.link.connected
        assert not world.link.takes_bytes

    asyncio.run(main())


def test_what_cannot_be_sent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        world.there = False
        world.send(b"1")
        await world.settled(1)
        assert world.answers == [None]
        world.there = True
        world.send(b"2")
        await world.settled(2)
        assert world.answers == [None, b"answer"], "without a back-off: the member has its own"

    asyncio.run(main())


def test_a_lost_connection_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        world.send(b"1")
        await world.settled(1)
        world.send(b"2")
        world.opened[0].close("lost")
        await world.settled(2)
        assert world.answers == [b"answer", None]
        world.send(b"3")
        await world.settled(3)
        assert (world.answers[2], len(world.opened)) == (b"answer", 2)

    asyncio.run(main())


def test_no_more_wait_than_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        for number in range(MAX_WAITING + 2):
            world.send(b"%d" % number)
        assert world.answers == [None, None]
        await world.settled(MAX_WAITING + 2)
        assert world.asked[0] == b"2"

    asyncio.run(main())


def test_an_answer_without_a_body_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        for world.answer in (Reply(200), Reply(1, remark="NullPointerException", body=b"x")):
            world.send(b"1")
        await world.settled(2)
        assert world.answers == [None, None]

    asyncio.run(main())


def test_both_prove_the_secret_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch, SECRET, SECRET)
        world.send(b"1")
        await world.settled(1)
        assert world.answers == [b"answer"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("own", "others"), [(SECRET, b""), (b"", SECRET), (SECRET, b"another secret ...")]
)
def test_another_secret_is_none(monkeypatch: pytest.MonkeyPatch, own: bytes, others: bytes) -> None:
    async def main() -> None:
        world = World(monkeypatch, own, others)
        world.send(b"1")
        await world.settled(1)
        assert (world.asked, world.answers) == ([], [None])

    asyncio.run(main())
