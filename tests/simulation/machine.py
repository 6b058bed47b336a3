"""A host of a simulated cluster, on which one program may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.transport.buffers import Buffers
from aiorocketmq.store.model.config import BrokerRole

from .disk import SimulatedDisk, has_begun
from .loop import Process, SimulatedClock

if TYPE_CHECKING:
    from .world import World

LOG_FOLDERS = ("commitlog", "data")
"""Of a broker, of a member of a group."""


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
        self.role = (0, BrokerRole.ASYNC_MASTER)
        """The ``brokerId`` that its broker is started with, and what it is then."""
        self.broker: Broker | None = None
        self.name_server: NameServer | None = None
        self.damaged: dict[int, int] = {}
        """Where its log was damaged at some time, and how many bytes of it."""
        self.disk_is_new = False
        """It is in the place of a lost one, and no program has been started with it."""
        self.begins_later = False
        """With its power it has lost the first files of its log, whose names were not on the disk
        yet, and not those behind them."""
        self.main: Callable[[], Coroutine[Any, Any, None]] = _nothing
        self.task: asyncio.Task[None] | None = None
        self.ended: list[BaseException | None] = []
        """How programs ended that nobody ended: none should."""
        self.disk_trouble: Callable[[str], int | None] | None = None
        """The errno with which a call of the disk ends."""
        self.is_synced_late = False
        """What it acknowledges need not be anywhere on a disk yet (ASYNC_FLUSH)."""
        self.was_scarce = False
        self.sync_failed = False
        """With its disk's last trouble: the system may have thrown away what it should write."""
        self.buffers: Buffers | None = None
        """Of its program's ports."""
        self.left: list[str] = []
        """What programs had open when they had ended."""
        self.steps: dict[str, None] = {}
        """Those that its programs have come to: their kind, and what they were about."""
        self._then: Callable[[], None] = lambda: None
        self._awaited: tuple[str, ...] = ()
        self._count = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        if self.process is not None:
            return
        self.disk.trouble = self.call_ends_with
        self.disk.reached, self.disk.gone = self._reached, self._gone
        self.world.note(f"{self.name} starts")
        process = self.process = Process(self.world.loop, self.name, self.host)
        process.reached = self._reached
        self.task = process.start(self.main())
        self.task.add_done_callback(partial(self._has_ended, process))

    def at_step(self, steps: tuple[str, ...], count: int, then: Callable[[], None]) -> None:
        """``then`` is called in the middle of whatever is done, at that many of these steps."""
        self._awaited, self._count, self._then = steps, count, then

    def _reached(self, step: str) -> None:
        self.steps[step] = None
        if step in self._awaited:
            self._count -= 1
            if self._count == 0:
                self._awaited = ()
                self.world.note(f"{self.name} has come to a step: {step}")
                self._then()

    def _gone(self, path: str) -> None:
        """The oldest file of its log, if its disk was ever scarce."""
        first = _first_of_log(self.disk)
        if self.was_scarce and _is_of_log(path) and PurePosixPath(path).name < (first or "~"):
            self.world.expired.add(self.broker_name)

    def call_ends_with(self, call: str) -> int | None:
        number = None if self.disk_trouble is None else self.disk_trouble(call)
        if number is not None and has_begun(call, number):
            self.sync_failed = True
        return number

    def _has_ended(self, process: Process, done: asyncio.Future[None]) -> None:
        """By itself: a program may whose disk is in trouble while it opens what it has; somebody
        starts it again."""
        if process is not self.process:
            return
        error = None if done.cancelled() else done.exception()
        self.world.note(f"{self.name} ends by itself: {error!r}")
        if self.disk_trouble is None or self.broker is not None:
            self.ended.append(error)
        self.kill()

    async def stop(self, patience_s: float) -> bool:
        """SIGTERM, and SIGKILL where it has not ended in time. False: it had not."""
        process, task = self.process, self.task
        if process is None or task is None:
            return True
        self.world.note(f"{self.name} is stopped")
        self.process, stopping = None, process
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=patience_s)
        if not done:
            for each in stopping.tasks:
                self.world.note_where(each)
        if done:
            self.left += self._open(stopping)
        self.process = stopping
        self.kill()
        return bool(done)

    def _open(self, process: Process) -> Iterator[str]:
        """What it has open now."""
        yield from (f"the file {path}" for path in self.disk.opened())
        network = self.world.network
        yield from (f"a port {each}" for each in network.listeners if each[0] == self.host)
        for end in network.ends:
            if end.process is process and end.came and not end.is_closing():
                yield f"a connection with {end.peer_address}"
        if self.buffers is not None and self.buffers.held:
            yield f"{self.buffers.held} bytes in buffers"

    def kill(self, *, power: bool = False) -> None:
        """SIGKILL, or the power fails."""
        self.world.ends(self)
        process, self.process, self.broker = self.process, None, None
        self.name_server = self.buffers = None
        if process is None:
            return
        self.world.note(f"{self.name} {'loses its power' if power else 'is killed'}")
        process.kill()
        process.reached = self.disk.reached = self.disk.gone = _nobody_looks
        self.world.network.gone(process)
        if power and self.is_synced_late and self.role[0] == 0:
            self.world.forgotten.setdefault(self.broker_name, []).append(self.world.loop.now)
        if power:
            first = _first_of_log(self.disk)
            self.disk = self.disk.after_power_failure(self.world.random)
            self.begins_later |= "" < first < _first_of_log(self.disk)
        else:  # what is in the middle of something goes on with one that nobody will see
            self.disk = self.disk.copy()


async def _nothing() -> None:
    pass


def _nobody_looks(_step: str) -> None: ...


def _first_of_log(disk: SimulatedDisk) -> str:
    """The name of a file; empty where there is none."""
    return min((PurePosixPath(each).name for each in disk.files if _is_of_log(each)), default="")


def _is_of_log(path: str) -> bool:
    file = PurePosixPath(path)
    return file.parent.name in LOG_FOLDERS and file.name.isdigit()
