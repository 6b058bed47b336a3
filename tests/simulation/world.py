"""A cluster whose machines lose their processes and their power."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import os
import random as random_module
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.opening import open_broker
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.sliced_requests import SlicedRequests
from aiorocketmq.store.log.entry_index import EntryIndex
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.raft.ready import Role, RoleChange
from aiorocketmq.store.services import indexing_service

from .disk import SimulatedDisk
from .loop import Process, SimulatedClock, SimulatedLoop
from .network import Network

NAMESRV = "10.0.0.1:9876"
BROKER_PORT = 10911


class Machine:
    """A host with a disk, on which one program may run."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock(world.loop)
        self.process: Process | None = None
        self.broker_name = ""
        self.broker: Broker | None = None
        self.main: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.ended: list[BaseException | None] = []
        """How programs ended that were not killed: none should."""

    @property
    def is_up(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        assert self.process is None
        assert self.main is not None
        self.disk = self.disk.copy()
        self.world.note(f"{self.name} starts")
        process = self.process = Process(self.world.loop, self.name, self.host)
        process.start(self.main()).add_done_callback(self.has_ended)

    def has_ended(self, done: asyncio.Future[None]) -> None:
        self.ended.append(None if done.cancelled() else done.exception())

    def kill(self, *, power: bool = False) -> None:
        """SIGKILL, or the power fails."""
        process, self.process, self.broker = self.process, None, None
        if process is None:
            return
        self.world.note(f"{self.name} {'loses its power' if power else 'is killed'}")
        process.kill()
        self.world.network.gone(process)
        if power:
            self.disk = self.disk.after_power_failure(self.world.random)


class World:
    """Everything comes from ``seed``. ``folder`` takes the tables of brokers."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop = SimulatedLoop(self.random)
        self.network = Network(self.loop, self._running)
        self.network.seen = self._seen
        self.folder = folder
        self.machines: dict[str, Machine] = {}
        self.leaders: dict[int, set[str]] = {}
        """Of a group that elects: who led in each term."""
        self.events: list[str] = []
        """What was done to it, for people."""
        self._trace = hashlib.sha256()

    # -- what happens

    def note(self, event: str) -> None:
        line = f"{self.loop.now - 1000:10.3f} s  {event}"
        self.events.append(line)
        self._seen(line)

    def _seen(self, line: str) -> None:
        self._trace.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        """Of everything that arrived anywhere, and when."""
        return self._trace.hexdigest()

    def _running(self) -> list[Process]:
        return [m.process for m in self.machines.values() if m.process is not None]

    # -- machines

    def machine(self, name: str, host: str) -> Machine:
        machine = self.machines[name] = Machine(self, name, host)
        return machine

    def name_server(self) -> Machine:
        machine = self.machine("namesrv", NAMESRV.partition(":")[0])

        async def main() -> None:
            server = NameServer(NamesrvConfig(), clock=machine.clock)
            await server.listen()
            await server.run()

        machine.main = main
        return machine

    def broker(
        self,
        name: str,
        host: str,
        broker_name: str,
        *,
        broker_id: int = 0,
        **store: Any,
    ) -> Machine:
        """``store``: of its MessageStoreConfig."""
        machine, root = self.machine(name, host), self.folder / name
        machine.broker_name = broker_name

        async def main() -> None:
            settings = BrokerSettings(
                BrokerConfig(
                    broker_name=broker_name,
                    broker_id=broker_id,
                    broker_cluster_name="C",
                    broker_ip1=host,
                    broker_ip2=host,
                    namesrv_addr=NAMESRV,
                    register_broker_timeout_mills=1000,
                ),
                BrokerServerConfig(listen_port=BROKER_PORT),
                store=MessageStoreConfig(
                    store_path_root_dir=str(root),
                    mapped_file_size_commit_log=64 << 10,
                    mapped_file_size_consume_queue=20 * 200,
                    max_hash_slot_num=100,
                    max_index_num=400,
                    **store,
                ),
            )
            async with open_broker(settings, machine.clock, machine.disk) as broker:
                machine.broker = broker
                if broker.group is not None:
                    broker.group.node.on_role.append(partial(self._role, name))
                await broker.run()

        machine.main = main
        return machine

    def group(self, broker_name: str, hosts: list[str]) -> list[Machine]:
        """Members that elect their master."""
        peers = ";".join(f"n{number}-{host}:40911" for number, host in enumerate(hosts))
        return [
            self.broker(
                f"n{number}",
                host,
                broker_name,
                enable_dledger_commit_log=True,
                dledger_group=broker_name,
                dledger_peers=peers,
                dledger_self_id=f"n{number}",
            )
            for number, host in enumerate(hosts)
        ]

    def _role(self, name: str, change: RoleChange) -> None:
        if change.role is Role.LEADER:
            self.note(f"{name} leads in term {change.term}")
            self.leaders.setdefault(change.term, set()).add(name)

    def masters(self) -> dict[str, Machine]:
        """Who serves each broker name now."""
        return {
            machine.broker_name: machine
            for machine in self.machines.values()
            if machine.broker is not None and machine.broker.identity().broker_id == 0
        }

    # -- life

    @contextmanager
    def simulated(self) -> Iterator[None]:
        """Nothing of the machine that this runs on is asked for while this is entered."""
        chance = Random(self.seed + 1)
        numbers = itertools.count()
        with ExitStack() as stack:
            for target, name, fake in (
                (socket, "create_server", self.network.listen),
                (socket, "create_connection", _refused),
                (os, "urandom", chance.randbytes),
                (os, "getpid", lambda: 4711),
                (uuid, "uuid4", lambda: uuid.UUID(int=next(numbers))),
                (random_module, "Random", _seeded(chance)),
                (indexing_service, "ThreadPoolExecutor", _NoThread),
                (SlicedRequests.__init__, "__defaults__", (self.loop.time,)),
                (EntryIndex.__init__, "__defaults__", (32 * 1000, 1000)),
            ):
                stack.enter_context(mock.patch.object(target, name, fake))
            random_module.seed(self.seed)
            yield

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        with self.simulated():
            self.loop.run_until_complete(main)


def _refused(*_how: Any, **_more: Any) -> Any:
    """A thread that blocks has no place in virtual time."""
    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def _seeded(chance: Random) -> type[Random]:
    """Whoever makes one without a seed gets one of the world's."""

    class Seeded(Random):
        def __new__(cls, *seed: Any) -> Seeded:
            return super().__new__(cls, *(seed or (chance.getrandbits(32),)))

        def __init__(self, *seed: Any) -> None:
            super().__init__(*(seed or (chance.getrandbits(32),)))

    return Seeded


class _NoThread:
    """In the place of an executor whose futures somebody takes himself: done at once."""

    def __init__(self, *_how: Any, **_more: Any) -> None: ...

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is for who waits
            future.set_exception(error)
        return future

    def shutdown(self, **_how: Any) -> None: ...
