"""A group in one process: members on connections, time and logs that the test owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from aiorocketmq.broker.raft.node import RaftNode
from aiorocketmq.broker.raft.parts import NodeSettings
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.store.dledger.raft_store import BUSY, FOLLOWS
from aiorocketmq.store.model.errors import StoreError
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.raft.ready import HardState, Role, RoleChange
from aiorocketmq.store.raft.settings import RaftSettings

from ...sim import ManualClock, Pipe
from ...store.raft.list_log import ListLog

PEERS = {"n0": "10.0.0.1:40911", "n1": "10.0.0.2:40911", "n2": "10.0.0.3:40911"}
STEP_S = 0.005
MOST_WAITING = 60
TURNS = 12
"""Of the event loop, for each step of the clock."""


class ListStore:
    """What a node needs of a store. It survives its node."""

    def __init__(self) -> None:
        self.log = ListLog()
        self.hard_state = HardState()
        self.votes = True
        self.committed_index = -1
        self.on_appended: Callable[[], None] = lambda: None
        self.on_readable: list[Callable[[], None]] = []
        self.term: int | None = None
        """It leads in this one."""
        self.refusal: PutResult | None = BUSY
        self.saves: list[HardState] = []
        self.disk: asyncio.Event | None = None
        """Saving waits for it."""
        self.told = 0
        self.unreadable = 0
        self.stuck = False
        """What is committed cannot be put into queues."""

    @property
    def committed_end(self) -> int:
        if self.committed_index < 0:
            return 0
        entry = self.log.stored[self.committed_index - self.log.begin_index]
        return entry.pos + entry.size

    @property
    def readable_end(self) -> int:
        """``unreadable`` bytes at the end are in no queue yet."""
        return self.committed_end - self.unreadable

    async def save(self, hard_state: HardState | None, votes: bool | None) -> None:
        if self.disk is not None:
            await self.disk.wait()
        if hard_state is not None:
            self.hard_state = hard_state
            self.saves.append(hard_state)
        if votes is not None:
            self.votes = votes

    def take_appended(self) -> None:
        self.told += 1

    def commit(self, index: int) -> None:
        assert self.committed_index < index <= self.log.end_index
        self.committed_index = index

    def lead(self, term: int) -> None:
        if self.stuck:
            raise StoreError("it begins later")
        self.term = term
        self.refusal = None

    def follow(self) -> None:
        self.term = None
        self.refusal = FOLLOWS

    def refuse(self, result: PutResult | None) -> None:
        self.refusal = result

    def put(self, body: bytes) -> int:
        """Where it ends."""
        assert self.term is not None
        assert self.refusal is None
        entry = self.log.put(self.term, body)
        self.on_appended()
        return entry.pos + entry.size

    @property
    def bodies(self) -> list[bytes]:
        """Committed ones."""
        begin = self.log.begin_index
        return [entry.body for entry in self.log.stored[: self.committed_index + 1 - begin]]


class LoggedPipe(Pipe):
    """Keeps what was written."""

    def __init__(self, peer: tuple[str, int], own: tuple[str, int]) -> None:
        super().__init__(peer, own)
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        super().write(data)


class SimNode:
    """A member while it runs."""

    def __init__(self, group: Group, self_id: str) -> None:
        self.group = group
        self.id = self_id
        self.store = group.stores[self_id]
        self.roles: list[RoleChange] = []
        self.node = RaftNode(
            RaftSettings("g", self_id, group.lists.get(self_id, group.peers), group.preferred),
            NodeSettings(
                server=ServerSettings(port=0),
                secret=group.secret,
                takes_puts=lambda: not (self.store.log.full or self.store.stuck),
                most_waiting=MOST_WAITING,
                broker_address=lambda: f"{self.host}:10911",
            ),
            self.store,
            group.clock,
            lambda: self.store.put(b"noop"),
        )
        self.node.on_role.append(self.roles.append)
        node: Any = self.node
        node._network.client._open = self._open
        node._network.server.run = self._listen
        self.listening = False
        self.pipes: list[Pipe] = []
        self.task = asyncio.get_running_loop().create_task(self.node.run())

    @property
    def host(self) -> str:
        return self.group.peers[self.id].partition(":")[0]

    async def _listen(self) -> None:
        self.listening = True
        try:
            await asyncio.Event().wait()
        finally:
            self.listening = False
            for pipe in self.pipes:
                pipe.close()

    async def _open(self, host: str, port: int) -> Connection:
        other = self.group.at(f"{host}:{port}")
        if other is None or not other.listening or self.group.is_cut(self.id, other.id):
            raise ConnectionRefusedError
        server: Any = other.node
        ours = LoggedPipe((host, port), (self.host, 1))
        theirs = Pipe((self.host, 1), (host, port))
        client: Any = self.node
        ends = (
            Connection(client._network.client),
            Connection(server._network.server),
        )
        for pipe, own, peer in ((ours, ends[0], theirs), (theirs, ends[1], ours)):
            pipe.own, pipe.other = own, peer
            own.connection_made(pipe)
        self.pipes.append(ours)
        other.pipes.append(theirs)
        self.group.pipes.append((self.id, other.id, ours))
        return ends[0]

    async def crash(self) -> None:
        """Without handing anything over."""
        node: Any = self.node
        node._hand_over = _nothing
        await self.stop()

    async def stop(self) -> None:
        self.task.cancel()
        await self.group.until(self.task.done)
        del self.group.members[self.id]


async def _nothing() -> None:
    pass


class Group:
    """Members by id, those that run."""

    def __init__(
        self,
        peers: dict[str, str] | None = None,
        secret: bytes = b"",
        preferred: tuple[str, ...] = (),
    ) -> None:
        self.peers = peers or PEERS
        self.preferred = preferred
        self.lists: dict[str, dict[str, str]] = {}
        """``dLegerPeers`` of members that have another one."""
        self.secret = secret
        self.clock = ManualClock()
        self.stores = {peer: ListStore() for peer in self.peers}
        self.members: dict[str, SimNode] = {}
        self.pipes: list[tuple[str, str, LoggedPipe]] = []
        self._cuts: set[frozenset[str]] = set()

    def start(self, *ids: str) -> None:
        for each in ids or tuple(self.peers):
            self.members[each] = SimNode(self, each)

    async def close(self) -> None:
        for each in list(self.members.values()):
            await each.crash()

    def at(self, address: str) -> SimNode | None:
        return next(
            (each for each in self.members.values() if self.peers[each.id] == address), None
        )

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts

    def cut(self, one: str) -> None:
        """From all others."""
        self._cuts |= {frozenset((one, other)) for other in self.peers if other != one}
        for client, server, pipe in self.pipes:
            if one in (client, server):
                pipe.close()

    def heal(self) -> None:
        self._cuts.clear()

    @property
    def leaders(self) -> list[SimNode]:
        return [each for each in self.members.values() if each.node.role is Role.LEADER]

    async def turns(self, count: int = TURNS) -> None:
        """Time stands still."""
        for _ in range(count):
            await asyncio.sleep(0)

    async def until(self, happened: Callable[[], object], most_s: float = 60.0) -> float:
        """How long it took, in seconds of the clock."""
        begun = self.clock.monotonic()
        while not happened():
            waited = self.clock.monotonic() - begun
            assert waited < most_s, "it has not happened"
            for each in self.members.values():
                assert not each.task.done() or each.task.cancelled() or each.task.result()
            self.clock.advance(STEP_S)
            await self.turns()
        return self.clock.monotonic() - begun

    async def leader(self, among: Collection[str] = ()) -> SimNode:
        """The one that everybody (who runs, or of ``among``) follows, in a store that takes
        puts."""

        def agreed() -> bool:
            asked = [each for each in self.members.values() if not among or each.id in among]
            leaders = [each for each in asked if each.node.role is Role.LEADER]
            return (
                len(leaders) == 1
                and leaders[0].store.term is not None
                and all(each.node.leader_id == leaders[0].id for each in asked)
            )

        await self.until(agreed)
        return next(each for each in self.leaders if not among or each.id in among)

    def pipes_of(self, member: SimNode) -> list[LoggedPipe]:
        """Those on which it asks others."""
        return [pipe for client, _, pipe in self.pipes if client == member.id and not pipe.ended]


class Sends:
    """Messages, and what their senders were told."""

    def __init__(self) -> None:
        self.told: dict[bytes, PutStatus] = {}

    def send(self, member: SimNode, body: bytes) -> None:
        end = member.store.put(body)
        member.node.when_acked(end, lambda status: self.told.__setitem__(body, status))
