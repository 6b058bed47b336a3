"""Virtual time, and processes that can vanish between any two callbacks.

The loop never waits: when nobody has anything to do it goes to the next timer. What a thread does
elsewhere is done here by the loop, at a later moment. A process is a context variable: all that is
begun in it inherits it, and of one that has been killed nothing runs any more, not even a
``finally``.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from .threads import run_in_thread

if TYPE_CHECKING:
    from .network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S = 1000.0
TURN_S = 1e-9
"""So long a turn of the loop takes at least: who waits for less than the clock can tell gets on."""
SLOWEST_S = 2.0
"""What a thread does takes no longer."""
PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
_GRAVEYARD: list[object] = []
"""Tasks of killed processes: collecting one would run its ``finally``."""


class Deadlock(Exception):
    """Nobody has anything to do, now or later."""


class Process:
    """A machine's program. ``host`` is its address."""

    def __init__(self, loop: SimulatedLoop, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)
        self._loop = loop
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_kill: list[Callable[[], None]] = []
        self.reached: Callable[[str], None] = lambda _step: None
        """Told each step that others can see or that its disk does (``world.STEPS``)."""

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._loop.create_task(main, context=self.context)

    def kill(self) -> None:
        """At once: nothing of it runs any more."""
        self.alive = False
        _GRAVEYARD.append((self, self.tasks))
        for each in self.on_kill:
            each()

    def __repr__(self) -> str:
        return self.name


class _Task(asyncio.Task[Any]):
    """Sets of tasks have an order that is the same each time."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **how: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(*args, **how)

    def __hash__(self) -> int:
        return self._number


class _NoFiles(selectors.BaseSelector):
    """Passes the time that a real one would wait for files."""

    def __init__(self, loop: Callable[[], SimulatedLoop]) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock
        self._loop().now += max(timeout, TURN_S)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """See the module. ``random`` is the only source of chance."""

    network: Network

    def __init__(self, random: Random) -> None:
        self.now = START_S
        self.random = random
        self.usually_s = 0.0005
        """How long what a thread does takes, about."""
        self.thread_s: Callable[[], float] = lambda: random.expovariate(1 / self.usually_s)
        self.slower = 1.0
        """How many times as long what some threads do takes."""
        self._speeds: dict[str, float] = {}
        super().__init__(_NoFiles(lambda: self))
        self.set_task_factory(_own_task)

    def time(self) -> float:
        return self.now

    # -- callbacks belong to processes

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(_if_alive, process, callback, args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, _if_alive, process, callback, args, context=context)

    # -- what threads do

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        name = getattr(executor, "_thread_name_prefix", "")
        if name.startswith("ThreadPoolExecutor"):  # a number follows
            name = ""
        if name not in self._speeds:
            self._speeds[name] = self.random.choice([1.0, 1.0, self.slower])
        seconds = self.thread_s() * self._speeds[name]
        self.call_later(min(seconds, SLOWEST_S), run_in_thread, future, func, args)
        return future

    # -- what sockets do

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_more: Any
    ) -> tuple[asyncio.Transport, Any]:
        return await self.network.connect(protocol_factory, host, port)

    async def sock_accept(self, sock: Any) -> tuple[Any, Any]:
        return await self.network.accept(sock)

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], Any], sock: Any, **_more: Any
    ) -> tuple[asyncio.Transport, Any]:
        protocol = protocol_factory()
        sock.end.attach(protocol)
        return sock.end, protocol

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        if isinstance(fd, int) or not hasattr(fd, "end"):
            super().add_reader(fd, callback, *args)
        else:
            fd.end.when_readable(callback)

    def remove_reader(self, fd: Any) -> bool:
        if isinstance(fd, int) or not hasattr(fd, "end"):
            return super().remove_reader(fd)
        fd.end.when_readable(None)
        return True


def _own_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = _Task(coroutine, loop=loop, **how)
    context = how.get("context")
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.append(task)
        if len(process.tasks) > 1000:
            process.tasks = [each for each in process.tasks if not each.done()]
    return task


def _if_alive(process: Process, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if process.alive:
        callback(*args)


class SimulatedClock:
    """Of one machine: its time of day may be wrong, and go too fast or too slowly."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.ahead_s = 0.0
        self.drift = 0.0
        """Seconds that it is further ahead after each second."""

    def time_ms(self) -> int:
        ahead_s = self.ahead_s + self.drift * (self._loop.now - START_S)
        return 1_700_000_000_000 + round((self._loop.now + ahead_s) * 1000)

    def monotonic(self) -> float:
        return self._loop.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
