"""A cluster whose machines lose their processes and their power."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import logging
import os
import random as random_module
import shutil
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest import mock

from aiorocketmq.broker.assembly import tables
from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.group_config import GroupConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.opening import open_broker
from aiorocketmq.daemon import persist
from aiorocketmq.namesrv import daemon as namesrv
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.sliced_requests import SlicedRequests
from aiorocketmq.remoting.transport import buffers
from aiorocketmq.remoting.transport.buffers import Buffers
from aiorocketmq.store.log.damage import DamagedRecords
from aiorocketmq.store.log.entry_index import EntryIndex
from aiorocketmq.store.log.entry_log import DledgerLog
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType, MessageStoreConfig
from aiorocketmq.store.raft.ready import Role, RoleChange
from aiorocketmq.store.services import cleaning, indexing_service, scrub

from .knobs import turn, turned
from .loop import PROCESS, Process, SimulatedLoop
from .machine import Machine
from .network import Network
from .threads import BlockingSocket

_write_to_disk = persist._write_to_disk
NAMESRV_HOSTS = ("10.0.0.1", "10.0.0.2")
NAMESRV = ";".join(f"{host}:9876" for host in NAMESRV_HOSTS)
BROKER_PORT = 10911
SCRUB_S = 20.0
"""After its start, and then never again, a broker reads its log and checks it."""
CLEANS_S = 1.0
"""A broker deletes what has expired, if its disk is scarce, from then on."""
MOST_CHECKS = 1000
"""No transaction is given up: its producer can be asked in the end."""
SMALL_FILES = {"mapped_file_size_commit_log": 64 << 10, "mapped_file_size_consume_queue": 20 * 200}
MEMORY = 8 << 30
"""That a program may use: far more than any does."""
AHEAD = "has another history"
LATE_S = 5.0
"""A sync by interval is as late as threads are, and is done again where it has not begun."""


class World:
    """Everything comes from ``seed``. ``folder`` takes the tables of brokers."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop = SimulatedLoop(self.random)
        self.network = Network(self.loop, self._running)
        self.folder = folder
        self.settings: dict[str, dict[str, Any]] = {}
        """What brokers are told besides, by part (``knobs.SETTINGS``)."""
        self.machines: dict[str, Machine] = {}
        self.leaders: dict[int, set[str]] = {}
        """Of a group that elects: who led in each term."""
        self.events: list[str] = []
        """What was done to it, for people."""
        self.serves_since: dict[str, float] = {}
        """Of each broker name, when who serves it now began to."""
        self.doubtful: dict[str, list[tuple[int, int, float]]] = {}
        """Of each broker name stretches of its log, from and to, and since when: there the program
        that wrote was another one from some place on, or its disk was in trouble."""
        self.gone_since: dict[str, float] = {}
        """Of each broker name that nobody serves, when who did was killed."""
        self.grown: dict[str, list[tuple[float, int]]] = {}
        """Of each broker name, when its log ended where (``tables.TableWatch`` looks)."""
        self.when_opened: list[Callable[[Machine, Broker], None]] = []
        """Told of each broker that has what its files have, and nothing else yet."""
        self.expired: set[str] = set()
        """Broker names of which a machine has deleted files of its log, scarce as its disk was."""
        self.forgotten: dict[str, list[float]] = {}
        """Of each broker name, when the power of an ASYNC_FLUSH broker failed: it may have lost
        what it had acknowledged shortly before, and given its numbers again."""
        self.ahead: set[str] = set()
        """Slaves that have said that their master lacks what they have."""
        self.logs: list[str] = []
        """What programs said that a person should see."""
        self._table = ""
        """The one that was written last."""
        self._trace = hashlib.sha256()
        self.network.seen = self._trace.update

    # -- what happens

    def note(self, event: str) -> None:
        line = f"{self.loop.now - 1000:10.3f} s  {event}"
        self.events.append(line)
        self._trace.update(line.encode() + b"\n")

    def note_where(self, task: asyncio.Task[Any]) -> None:
        """What a task waits for."""
        if not task.done():
            places = (f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in stack_of(task))
            self.note(f"{task.get_name()} waits in {' > '.join(places)}")

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

    def name_servers(self) -> list[Machine]:
        return [self._name_server(number, host) for number, host in enumerate(NAMESRV_HOSTS, 1)]

    def _name_server(self, number: int, host: str) -> Machine:
        machine = self.machine(f"namesrv{number}", host)

        async def main() -> None:
            server = machine.name_server = NameServer(NamesrvConfig(), clock=machine.clock)
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
        broker_role: BrokerRole = BrokerRole.ASYNC_MASTER,
        flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH,
        **store: Any,
    ) -> Machine:
        """``store``: of its MessageStoreConfig."""
        machine, root = self.machine(name, host), self.folder / name
        told = {part: self.settings.get(part, {}) for part in ("broker", "store", "group")}
        machine.broker_name, machine.role = broker_name, (broker_id, broker_role)
        machine.is_synced_late = (
            flush_disk_type is FlushDiskType.ASYNC_FLUSH and "dledger_group" not in store
        )

        async def main() -> None:
            broker_id, broker_role = machine.role
            settings = BrokerSettings(
                BrokerConfig(
                    broker_name=broker_name,
                    broker_id=broker_id,
                    broker_cluster_name="C",
                    broker_ip1=host,
                    broker_ip2=host,
                    namesrv_addr=NAMESRV,
                    register_broker_timeout_mills=1000,
                    **{"transaction_check_interval": 5000} | told["broker"],
                    transaction_check_max=MOST_CHECKS,
                ),
                BrokerServerConfig(listen_port=BROKER_PORT),
                store=MessageStoreConfig(
                    store_path_root_dir=str(root),
                    broker_role=broker_role,
                    flush_disk_type=flush_disk_type,
                    max_hash_slot_num=100,
                    max_index_num=400,
                    **SMALL_FILES | told["store"] | store,
                ),
                group=GroupConfig(**told["group"]),
            )
            async with open_broker(settings, machine.clock, machine.disk) as broker:
                machine.broker = broker
                for look in self.when_opened:
                    look(machine, broker)
                if broker_id == 0 and broker.group is None:
                    self._begins(machine)
                elif broker.group is not None:
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

    def remove_tables(self, machine: Machine) -> None:
        """Its disk is lost."""
        shutil.rmtree(self.folder / machine.name, ignore_errors=True)

    def _role(self, name: str, change: RoleChange) -> None:
        if change.role is Role.LEADER:
            self.note(f"{name} leads in term {change.term}")
            self.leaders.setdefault(change.term, set()).add(name)
            self._begins(self.machines[name])

    def _begins(self, machine: Machine) -> None:
        """To serve."""
        self.serves_since[machine.broker_name] = self.loop.now
        self.doubts(machine, since=self.gone_since.pop(machine.broker_name, None))

    def ends(self, machine: Machine) -> None:
        """It is about to be killed."""
        if self.masters().get(machine.broker_name) is machine:
            self.gone_since[machine.broker_name] = self.loop.now

    def doubts(
        self, machine: Machine, begin: int | None = None, *, since: float | None = None
    ) -> int:
        """From ``begin`` on, or at the end of its log, where that is now. ``since``: or now."""
        if machine.broker is None:
            return 0
        store = machine.broker.store
        end = store.max_phy_offset if store.raft is None else store.raft.log.log.max_phy_offset
        at = self.loop.now if since is None else since
        stretch = end if begin is None else begin, end, at
        self.doubtful.setdefault(machine.broker_name, []).append(stretch)
        return end

    def had_forgotten(self, broker_name: str, acknowledged: float | None = None) -> bool:
        """What it has may be other than it was, or lack what it acknowledged then."""
        if acknowledged is None:
            return broker_name in self.forgotten
        store = self.settings.get("store", {})
        late_s = LATE_S + sum(
            store.get(name, usual) / 1000
            for name, usual in (
                ("flush_commit_log_thorough_interval", 10_000),
                ("flush_interval_commit_log", 500),
            )
        )
        return any(acknowledged >= at - late_s for at in self.forgotten.get(broker_name, ()))

    def masters(self) -> dict[str, Machine]:
        """Who serves each broker name now; of several, one of which has not heard of its successor,
        the one of the newest term."""
        newest = self.leaders.get(max(self.leaders, default=0), set())
        serving = sorted(
            (m for m in self.machines.values() if m.broker and m.broker.identity().broker_id == 0),
            key=lambda machine: machine.name in newest,
        )
        return {machine.broker_name: machine for machine in serving}

    def broker_names(self) -> list[str]:
        return sorted({m.broker_name for m in self.machines.values() if m.broker_name})

    # -- tables

    def _write_table(self, path: Path, *what: Any) -> None:
        machine = self._at_work()
        number = errno.EIO if machine is None else machine.call_ends_with("table")
        if number is not None:
            raise OSError(number, os.strerror(number), str(path))
        self._table = path.name.partition(".")[0]
        _write_to_disk(path, *what)

    def _table_written(self, folder: Path) -> None:
        machine = self._at_work()
        if machine is not None and machine.process is not None:
            machine.process.reached(f"table {self._table}")

    def _with_buffers(self, init: Callable[..., None]) -> Callable[..., None]:
        def made(buffers: Buffers, *args: Any) -> None:
            init(buffers, *args)
            if (machine := self._at_work()) is not None:
                machine.buffers = buffers

        return made

    def _with_damage(self, remember: Callable[..., int]) -> Callable[..., int]:
        def remembered(damage: DamagedRecords, phy_offset: int, size: int) -> int:
            if (machine := self._at_work()) is not None:
                machine.damaged[phy_offset] = max(size, machine.damaged.get(phy_offset, 0))
            return remember(damage, phy_offset, size)

        return remembered

    def _with_new_log(self, begin: Callable[..., None]) -> Callable[..., None]:
        def begun(log: DledgerLog, entry: Entry) -> None:
            machine = self._at_work()
            if machine is not None and entry.index > 0:
                self.note(f"the log of {machine.name} begins anew with entry {entry.index}")
            begin(log, entry)

        return begun

    def _at_work(self) -> Machine | None:
        """Whose program calls; None: it has been killed."""
        process = PROCESS.get()
        if process is None or not process.alive:
            return None
        return self.machines[process.name]

    # -- life

    @contextmanager
    def _logged(self) -> Iterator[None]:
        handler, logger = _Log(self), logging.getLogger("aiorocketmq")
        before = logger.handlers, logger.propagate, logger.level
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.handlers, logger.propagate = before[:2]
            logger.setLevel(before[2])

    @contextmanager
    def simulated(self) -> Iterator[None]:
        """Nothing of the machine that this runs on is asked for while this is entered."""
        chance = Random(self.seed + 1)
        numbers = itertools.count()
        with ExitStack() as stack:
            for target, name, fake in (
                (socket, "create_server", self.network.listen),
                (socket, "create_connection", partial(BlockingSocket.connect, self.network)),
                (os, "urandom", chance.randbytes),
                (os, "getpid", lambda: 4711),
                *(
                    (module, "usable_memory", lambda: MEMORY)
                    for module in (buffers, tables, namesrv)
                ),
                (uuid, "uuid4", lambda: uuid.UUID(int=next(numbers))),
                (random_module, "Random", _seeded(chance)),
                (indexing_service, "ThreadPoolExecutor", _NoThread),
                (SlicedRequests.__init__, "__defaults__", (self.loop.time,)),
                (cleaning, "_FIRST_ROUND_SECONDS", CLEANS_S),
                (scrub, "FIRST_S", SCRUB_S),
                (scrub, "_IDLE_S", SCRUB_S),
                (Buffers, "__init__", self._with_buffers(Buffers.__init__)),
                (DamagedRecords, "remember", self._with_damage(DamagedRecords.remember)),
                (DledgerLog, "begin_with", self._with_new_log(DledgerLog.begin_with)),
                (persist, "_write_to_disk", self._write_table),
                (persist, "_sync_folder", self._table_written),
                (EntryIndex.__init__, "__defaults__", (32 * 1000, 1000)),
            ):
                stack.enter_context(mock.patch.object(target, name, fake))
            for knob, value in turned(Random(self.seed + 2)):
                stack.enter_context(turn(knob, value))
                self.note(f"{knob.module}.{knob.name} = {value}")
            random_module.seed(self.seed)
            stack.enter_context(self._logged())
            yield

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        with self.simulated():
            self.loop.run_until_complete(main)


class _Log(logging.Handler):
    """Puts down who said what at which time of the world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and not process.alive:
            return
        troubled = any(machine.disk_trouble for machine in self._world.machines.values())
        if AHEAD in record.getMessage() and not troubled:  # or its master cannot read just now
            self._world.ahead.add(str(process))
        self._world.logs.append(
            f"{self._world.loop.now - 1000:10.3f} s  [{PROCESS.get()}] {record.levelname} "
            f"{record.name}: {record.getMessage()}"
        )


def stack_of(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """Frames of a task that waits, outermost first."""
    coroutine: Any = task.get_coro()
    while coroutine is not None and hasattr(coroutine, "cr_frame"):
        if coroutine.cr_frame is not None:
            yield coroutine.cr_frame
        coroutine = coroutine.cr_await


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
