"""A master and slaves, each with a store of its own, on wires whose bytes the scenario delivers.

Every record has 100 bytes, so offsets count messages: 300 is behind the third one. Files of the log
have 8192 bytes and hold 81 of them; the rest of a file is blank.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from aiorocketmq.broker.replication.master import ReplicationServer, SlaveLink, SlavePort
from aiorocketmq.broker.replication.slave import MasterLink, ReplicationClient
from aiorocketmq.broker.sends.durability import Durability
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import StoreError
from aiorocketmq.store.replica.replica_acks import ReplicaAcks
from aiorocketmq.store.replica.replication import (
    BATCH_HEAD,
    REPORT,
    ReplicationSettings,
)

from ...broker.replication_world import Wire
from ...store.cleaning_world import ANY_HOUR
from ...store.world import STORE_HOST, bodies_of, config_of, crash, messages_of, put_ok
from ..language import Driver, step
from .simulated import keep_running, pass_time, settle

DAY_S = 24 * 3600


class NotingServer(ReplicationServer):
    """Says why it ended a connection."""

    refusal = ""

    def refuse(self, slave: SlaveLink, error: StoreError) -> None:
        self.refusal = str(error)
        super().refuse(slave, error)


class Slave:
    """A process and, when it is connected, both ends of its wire."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.at_master: Wire | None = None
        self.own: Wire | None = None

    @property
    def is_connected(self) -> bool:
        return self.own is not None and not self.own.ended


class ReplicationDriver(Driver):
    async def start(self) -> None:
        self.slaves: dict[str, Slave] = {}
        self.told: list[str] = []
        self.puts = 0
        self.stack.callback(self._close)

    def _close(self) -> None:
        for store in (self.master, *(slave.store for slave in self.slaves.values())):
            store.close()

    def _open(self, name: str, **settings: Any) -> MessageStore:
        settings |= {"delete_when": ANY_HOUR, "file_reserved_time": 1}
        settings |= {"delete_commit_log_files_interval": 0}
        settings |= {"delete_consume_queue_files_interval": 0}
        config = config_of(self.folder / name, **settings)
        return MessageStore.open(config, self.clock, store_host=STORE_HOST)

    # -- the master

    @step("master[ in sync {in_sync}][ batches of {batch} bytes][ fall behind {behind}]")
    def start_master(self, in_sync: int = 1, batch: int = 32_768, behind: int = 1 << 28) -> None:
        """``in sync``: so many slaves have to have a message (inSyncReplicas); ``fall behind``:
        more bytes than that, and nobody waits for them (haSlaveFallbehindMax)."""
        self.acks = in_sync, behind, 3.0
        self.settings = ReplicationSettings(batch_size=batch)
        self.master = self._open("master")
        self._serve()

    def _serve(self) -> None:
        self.server = NotingServer(
            self.master, self.settings, ReplicaAcks(*self.acks), self.clock, SlavePort(1)
        )
        self.durability = Durability(self.master, server=self.server)
        keep_running(self.stack, self.server._watch())

    @step("put {count}")
    async def put(self, count: int) -> None:
        """Nobody waits for slaves (ASYNC_MASTER)."""
        for _ in range(count):
            self._put()
        await settle()

    @step("send {name}")
    async def send(self, name: str) -> None:
        """A message that waits for the slaves (SYNC_MASTER): ``answers`` has what comes of it."""
        self._put()

        def told(code: int) -> None:
            self.told.append(f"{name}: {'ok' if code == 0 else ResponseCode(code).name}")

        self.durability.when_stored(self.master.max_phy_offset, told)
        await settle()

    def _put(self) -> None:
        self.puts += 1
        put_ok(self.master, body=b"%08d" % self.puts)

    @step("answers")
    async def answers(self) -> list[str]:
        await settle()
        said, self.told = self.told, []
        return [*said, f"{self.server.waiting} waiting"]

    @step("master loses its log from {offset}")
    def master_loses(self, offset: int) -> None:
        """Power fails, and the last messages were not on its disk yet; it starts again."""
        for slave in self.slaves.values():
            self._break(slave)
        self.master = self._cut(self.master, "master", offset)
        self._serve()

    @step("master deletes {count} file")
    async def delete(self, count: int) -> None:
        """Its oldest files have expired."""
        await self.master.sync()
        for path in sorted((self.folder / "master/commitlog").iterdir())[:count]:
            os.utime(path, times=(self.clock.time_ms() / 1000 - DAY_S,) * 2)
        await self.master.cleaning.clean()

    # -- slaves

    @step("{name} connects")
    async def connect(self, name: str) -> None:
        if name not in self.slaves:
            self.slaves[name] = Slave(self._open(name, broker_role=BrokerRole.SLAVE))
        slave = self.slaves[name]
        client = ReplicationClient(slave.store, self.settings, self.clock, self._verify)
        link = MasterLink(client)
        slave.at_master, slave.own = Wire(SlaveLink(self.server)), Wire(link)
        slave.at_master.other, slave.own.other = slave.own, slave.at_master
        slave.at_master.own.connection_made(slave.at_master)
        link.connection_made(slave.own)
        keep_running(self.stack, self._follow(client, link))
        await settle()

    @staticmethod
    async def _follow(client: ReplicationClient, link: MasterLink) -> None:
        await client._follow(link, 0)

    async def _verify(self, _address: str) -> None:
        pass

    @step("{name} disconnects")
    async def disconnect(self, name: str) -> None:
        self._break(self.slaves[name])
        await settle()

    @staticmethod
    def _break(slave: Slave) -> None:
        if slave.own is not None:
            slave.own.abort()

    @step("{name} loses its log from {offset}")
    async def slave_loses(self, name: str, offset: int) -> None:
        self._break(self.slaves[name])
        await settle()
        self.slaves[name] = Slave(
            self._cut(self.slaves[name].store, name, offset, broker_role=BrokerRole.SLAVE)
        )

    def _cut(self, store: MessageStore, name: str, offset: int, **settings: Any) -> MessageStore:
        crash(store)
        for path in sorted((self.folder / name / "commitlog").iterdir()):
            first, size = int(path.name), path.stat().st_size
            with path.open("r+b") as file:
                file.seek(max(0, min(size, offset - first)))
                file.write(bytes(size - file.tell()))
        return self._open(name, **settings)

    # -- the wire

    @step("deliver to {name}")
    async def to_slave(self, name: str) -> list[str]:
        """What the master has sent so far."""
        wire = self.slaves[name].at_master
        assert wire is not None
        said = list(_batches(bytes(wire.unread))) or ["nothing"]
        wire.deliver()
        await settle()
        return said

    @step("deliver from {name}")
    async def from_slave(self, name: str) -> list[str]:
        """What the slave has sent so far."""
        wire = self.slaves[name].own
        assert wire is not None
        reports = [f"report {offset}" for (offset,) in REPORT.iter_unpack(bytes(wire.unread))]
        wire.deliver()
        await settle()
        return reports or ["nothing"]

    @step("carry")
    async def carry(self) -> None:
        """To and fro, until nothing is on its way any more."""
        wires = [wire for slave in self.slaves.values() for wire in (slave.own, slave.at_master)]
        while any(wire is not None and wire.unread and not wire.ended for wire in wires):
            for wire in wires:
                if wire is not None:
                    wire.deliver()
            await settle()

    @step("advance {seconds} s")
    async def advance(self, seconds: float) -> None:
        await pass_time(self.clock, seconds)

    @step("state")
    def state(self) -> list[str]:
        return list(self._state())

    def _state(self) -> Iterator[str]:
        refusal = self.server.refusal.partition(":")[0]
        yield f"master {self.master.min_phy_offset} to {self.master.max_phy_offset}" + (
            f", ended a connection: {refusal}" if refusal else ""
        )
        self.server.refusal = ""
        begin, master = self.master.min_phy_offset, set(bodies_of(self.master))
        for name, slave in sorted(self.slaves.items()):
            connected = "not connected"
            if slave.is_connected and slave.at_master is not None:
                assert isinstance(slave.at_master.own, SlaveLink)
                connected = f"acked {slave.at_master.own.side.acked}"
            kept = [m for m in messages_of(slave.store) if m.commit_log_offset >= begin]
            same = {m.body for m in kept} <= master
            yield (
                f"{name} {slave.store.min_phy_offset} to {slave.store.max_phy_offset}, {connected}"
                + ("" if same else ", with messages that the master has not")
            )


def _batches(data: bytes) -> Iterator[str]:
    while data:
        offset, size = BATCH_HEAD.unpack_from(data)
        yield f"batch at {offset} with {size} bytes" if size else f"heartbeat at {offset}"
        data = data[BATCH_HEAD.size + size :]
