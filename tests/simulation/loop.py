"""Virtual time, and processes that can vanish between any two callbacks.

The loop never waits: when nobody has anything to do it goes to the next timer. What a thread does
elsewhere is done here by the loop, at a later moment. A process is a context variable: all that is
begun in it inherits it, and of one that has been killed nothing runs any more, not even a
``finally``.

A turn of the loop is asyncio's, in its order, without what nobody needs here: a quarter of what a
seed costs was spent around callbacks, not in them.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from functools import partial
from heapq import heapify, heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

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
FEW_CANCELLED = 50
"""Timers that may stay in the heap, whatever else there is."""
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
        """Told each step that others can see or that its disk does (``habits.STEPS``)."""

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


class _Program(Protocol):
    alive: bool


class _Always:
    alive = True


class _Never:
    alive = False


_OUTSIDE, _CANCELLED = _Always(), _Never()
"""Whose calls belong to no process, and those that nobody wants any more."""


class _Soon:
    """A call in the next turn: what asyncio's ``Handle`` is, and whose it is. (Without an
    ``__init__``: there are so many that it would show.)"""

    __slots__ = ("call", "context", "process")

    process: _Program
    call: tuple[Any, ...]
    """What is called, and with what."""
    context: contextvars.Context

    def cancel(self) -> None:
        self.process, self.call = _CANCELLED, ()

    def cancelled(self) -> bool:
        return self.process is _CANCELLED


class _Later(float):
    """A call at a time, which it is itself: so the heap compares them without Python."""

    __slots__ = ("call", "context", "process", "waits_in")

    process: _Program
    call: tuple[Any, ...]
    context: contextvars.Context
    waits_in: SimulatedLoop | None
    """None: it is not in the heap any more."""

    def cancel(self) -> None:
        if self.process is not _CANCELLED:
            self.process, self.call = _CANCELLED, ()
            if self.waits_in is not None:
                self.waits_in.cancelled += 1

    def cancelled(self) -> bool:
        return self.process is _CANCELLED

    def when(self) -> float:
        return self


class _NoFiles(selectors.BaseSelector):
    """The loop asks nobody whether files are ready; asyncio wants one nevertheless."""

    def __init__(self) -> None:
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
        raise AssertionError("nobody asks")


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
        self._soon: deque[_Soon | _Later] = deque()
        self._later: list[_Later] = []
        """A heap."""
        self.cancelled = 0
        """How many of these are, about."""
        self._stops = False
        self.raised: list[BaseException] = []
        """What callbacks raised: in asyncio a connection ends so, with lines in the log."""
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        super().__init__(_NoFiles())
        self.set_task_factory(_own_task)

    def time(self) -> float:
        return self.now

    get_debug = bool
    """False. Each future and each task asks, so it is not asked in Python."""

    # -- callbacks belong to processes

    def call_soon(  # type: ignore[override]
        self, *call: Any, context: contextvars.Context | None = None
    ) -> _Soon:
        if context is None:
            context = contextvars.copy_context()
        process, soon = context.get(PROCESS), _Soon()
        soon.process = process or _OUTSIDE
        soon.call, soon.context = call, context
        self._soon.append(soon)
        return soon

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, *call: Any, context: contextvars.Context | None = None
    ) -> _Later:
        if context is None:
            context = contextvars.copy_context()
        process, later = context.get(PROCESS), _Later(when)
        later.process = process or _OUTSIDE
        later.call, later.context, later.waits_in = call, context, self
        heappush(self._later, later)
        return later

    def call_later(  # type: ignore[override]
        self, delay: float, *call: Any, context: contextvars.Context | None = None
    ) -> _Later:
        return self.call_at(self.now + delay, *call, context=context)

    def stop(self) -> None:
        self._stops = True
        super().stop()

    def _run_once(self) -> None:
        """Turns, until somebody stops the loop; asyncio would come back after each."""
        soon = self._soon
        while True:
            later = self._later
            if self.cancelled > FEW_CANCELLED or (later and later[0].process is _CANCELLED):
                later = self._without_cancelled()
            if soon or self._stops:
                self.now += TURN_S
            elif later:
                self.now += max(later[0] - self.now, TURN_S)
            else:
                raise Deadlock
            due = self.now + TURN_S
            while later and later[0] < due:
                timer = heappop(later)
                timer.waits_in = None
                soon.append(timer)
            for _ in range(len(soon)):  # what is added meanwhile has the next turn
                each = soon.popleft()
                if each.process.alive:
                    try:
                        each.context.run(*each.call)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 - as asyncio does
                        self.raised.append(error)
                        self.call_exception_handler(
                            {"message": f"Exception in {each.call[0]}", "exception": error}
                        )
            if self._stops:
                self._stops = False
                return

    def _without_cancelled(self) -> list[_Later]:
        """The heap: those in front are gone, and where most are, all."""
        later = self._later
        if len(later) > 2 * FEW_CANCELLED and self.cancelled > len(later) / 2:
            later = self._later = [each for each in later if each.process is not _CANCELLED]
            heapify(later)
            self.cancelled = 0
        while later and later[0].process is _CANCELLED:
            heappop(later).waits_in = None
            self.cancelled -= 1
        return later

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


class _Sleep(_Later):
    """What a task that sleeps waits for: its timer, which goes on with the task at once. Most of
    what an idle cluster does is to wake and sleep again, and a future takes a second turn for it.
    """

    __slots__ = ("_asyncio_future_blocking",)

    def __await__(self) -> Generator[Any, Any, None]:
        self._asyncio_future_blocking = True
        return iter((self,))  # type: ignore[return-value] # goes on without Python

    def get_loop(self) -> SimulatedLoop | None:
        return self.waits_in

    def add_done_callback(
        self, callback: Callable[[_Sleep], object], *, context: contextvars.Context
    ) -> None:
        """Of the one task that waits."""
        assert self.waits_in is not None
        process = context.get(PROCESS)
        self.process = process or _OUTSIDE
        self.call, self.context = (callback, self), context
        heappush(self.waits_in._later, self)

    def cancel(self, msg: object = None) -> bool:  # type: ignore[override]
        """The task is. False: its time has come already."""
        loop, call = self.waits_in, self.call
        if loop is None or self.cancelled():
            return False
        super().cancel()
        loop.call_soon(*call, context=self.context)
        return True

    def result(self) -> None:
        if self.process is _CANCELLED:
            raise asyncio.CancelledError


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

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _Later:
        return self._loop.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """As ``asyncio.sleep``."""
        if seconds > 0:
            timer = _Sleep(self._loop.now + seconds)
            timer.waits_in = self._loop
            await timer
        else:
            await asyncio.sleep(0)
