"""The tables of a broker on disk: ``config/topics.json`` and its like (``commitlog.md`` §15).

A table that changed is written soon, in a thread, whole; changes that come while it is written make
one more write. Who has promised something (an administrator's command) awaits ``saved`` before
answering. What nobody waits for (new groups) is written together, ``PAUSE_S`` after the last write.
The original writes inside the request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from ...remoting.clock import Clock, pause
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import decode_body
from ...remoting.protocol.fastjson.pretty_table import PrettyTable
from ...remoting.protocol.wire import Record
from ...remoting.services import happens_within
from ...remoting.sliced_requests import in_slices
from ...remoting.slices import Steps, at_once
from ...store.model.errors import StoreFileError
from .consumer_offsets import ConsumerOffsets
from .json_file import JsonFile

log: Final = logging.getLogger(__name__)

R = TypeVar("R", bound=Record)

RETRY_S: Final = 5.0
PAUSE_S: Final = 0.5
"""Between two writes of a table that nobody waits for: 5,000 entries take 3 ms of CPU, and a group
is in two tables."""
OFTEN_S: Final = 1.0
_REST: Final = 10
"""What is written often takes no more than one part in so many of the time: 20,000 pairs of topic
and group take 0.2 s."""


class ConfigFile:
    """One table and its file. ``snapshot`` gives a Record that does not change any more, in slices
    where it is large."""

    def __init__(
        self,
        file: JsonFile,
        snapshot: Callable[[], Record | Steps[Any]],
        wake: Callable[[], None],
        outages: Outages,
    ) -> None:
        self._file = file
        self._outages = outages
        self._snapshot = snapshot
        self._text = PrettyTable()
        self._wake = wake
        self._changes = 0
        self._saved = 0
        self._rests_until = 0.0
        self._failed = False
        self._writing = threading.Lock()
        self._on_disk = 0
        self._waiters: list[tuple[int, Callable[[StoreFileError | None], None]]] = []

    @property
    def dirty(self) -> bool:
        return self._saved != self._changes

    def changed(self) -> None:
        """The table is not what the file says any more."""
        self._changes += 1
        self._wake()

    def when_saved(self, done: Callable[[StoreFileError | None], None]) -> None:
        """Call ``done`` when everything that has changed so far is on the disk (perhaps at once),
        or with the error when it could not be written."""
        if self.dirty:
            self._waiters.append((self._changes, done))
            self._wake()
        else:
            done(None)

    async def saved(self) -> None:
        """Return when everything that has changed so far is on the disk. Raises
        ``StoreFileError``."""
        future: asyncio.Future[StoreFileError | None] = asyncio.get_running_loop().create_future()
        self.when_saved(lambda error: None if future.done() else future.set_result(error))
        if (error := await future) is not None:
            raise error

    def due(self) -> float | None:
        """From when on (monotonic) it is to be written, ``None``: it need not be. After a failure
        also who waits has to."""
        if not self.dirty:
            return None
        return 0.0 if self._waiters and not self._failed else self._rests_until

    async def try_to_save(self, now: float) -> None:
        """``save``; what goes wrong is logged, and it rests a little longer then."""
        self._rests_until, self._failed = now + PAUSE_S, False
        try:
            await self.save()
        except StoreFileError as error:
            self._outages.fails(
                log,
                (self._file.path,),
                "table not saved, tried again in %.0f s: %s",
                RETRY_S,
                error,
                level=logging.ERROR,
            )
            self._rests_until, self._failed = now + RETRY_S, True
        else:
            self._outages.works((self._file.path,))

    async def save(self) -> None:
        """Write the table as it is now, in a thread. Raises ``StoreFileError``, and so does who
        waits."""
        number, snapshot = self._changes, self._snapshot()
        record: Record = snapshot if isinstance(snapshot, Record) else await in_slices(snapshot)
        try:
            await asyncio.to_thread(self._write, number, record)
        except StoreFileError as error:
            self._tell(number, error)
            raise
        self._saved = number
        self._tell(number, None)

    def save_now(self) -> None:
        """Write the table, blocking: at the end, when nobody else is served."""
        number, record = self._changes, self._snapshot()
        self._write(number, record if isinstance(record, Record) else at_once(record))
        self._saved = number
        self._tell(number, None)

    def _write(self, number: int, record: Record) -> None:
        """One at a time, and never an older table over a newer one: a thread goes on when its task
        is cancelled."""
        with self._writing:
            if number >= self._on_disk:
                self._file.save(self._text.text(record))
                self._on_disk = number

    def _tell(self, number: int, error: StoreFileError | None) -> None:
        waiting = [done for change, done in self._waiters if change <= number]
        self._waiters = [each for each in self._waiters if each[0] > number]
        for done in waiting:
            done(error)


class Settled(Protocol):
    """``Tables.settled`` of one file."""

    def __call__(self, *, offsets_too: bool = False) -> Awaitable[None]:
        """Changes of its table so far, and those of consumer offsets, are on the disk, and where
        others have to know them they do, once it has been awaited."""


class ConfigFiles:
    """Service: writes the tables that changed."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._outages = Outages(clock)
        self._files: list[ConfigFile] = []
        self._wake = asyncio.Event()
        self._loaded: dict[str, JsonFile] = {}

    def load(self, name: str, record_type: type[R]) -> R | None:
        """What a file holds; ``None`` when there is none. Blocks. Raises ``StoreFileError``."""
        file = self._loaded[name] = JsonFile(self._folder / name)
        return file.load(lambda text: decode_body(record_type, text.encode()))

    def newest(self, *names: str) -> str:
        """The file that was written last; of those of one age, and where there is none, the first.
        Blocks. Raises ``StoreFileError``."""
        return max(names, key=lambda name: JsonFile(self._folder / name).written_ns())

    def is_there(self, name: str) -> bool:
        """The file, or its backup. Blocks. Raises ``StoreFileError``."""
        return JsonFile(self._folder / name).written_ns() > 0

    def put_aside(self, name: str) -> None:
        """The file does not count any more (``aside_of``). Blocks. Raises ``StoreFileError``."""
        JsonFile(self._folder / name).put_aside()

    def is_doubtful(self, name: str) -> bool:
        """The file did not have what was saved last, or was not there at all."""
        file = self._loaded.get(name)
        return file is not None and (file.restored or not file.path.exists())

    def add(self, name: str, snapshot: Callable[[], Record | Steps[Any]]) -> ConfigFile:
        """Keep a table in a file of that name from now on."""
        json_file = self._loaded.get(name) or JsonFile(self._folder / name)
        file = ConfigFile(json_file, snapshot, self._wake.set, self._outages)
        self._files.append(file)
        if json_file.restored:
            file.changed()
        return file

    async def run(self) -> None:
        try:
            while True:
                due = [when for file in self._files if (when := file.due()) is not None]
                if not due:
                    await self._wake.wait()
                elif (rest := min(due) - self._clock.monotonic()) > 0:
                    await happens_within(self._wake, rest, self._clock)
                self._wake.clear()
                await self._save_due()
        finally:
            self.save_now()

    async def _save_due(self) -> None:
        for file in self._files:
            if (when := file.due()) is not None and when <= (now := self._clock.monotonic()):
                await file.try_to_save(now)

    def save_now(self) -> None:
        """Write whatever changed, blocking. A file that cannot be written is logged and does not
        keep others from it."""
        for file in self._files:
            if file.dirty:
                try:
                    file.save_now()
                except StoreFileError as error:
                    log.error("table not saved: %s", error)


class OffsetPersistence:
    """Service: has the consumer offsets written every ``interval_ms``, when there were commits.

    ``often``: every second, unless that takes long. A member of a group may lead as soon as it is
    started again, when it knows what its file has.
    """

    def __init__(
        self,
        offsets: ConsumerOffsets,
        file: ConfigFile,
        interval_ms: Callable[[], int],
        clock: Clock,
        *,
        often: bool = False,
    ) -> None:
        self._offsets = offsets
        self._file = file
        self._interval_ms = interval_ms
        self._clock = clock
        self._often = often
        self._written = offsets.changes

    async def run(self) -> None:
        took = 0.0
        try:
            while True:
                await pause(self._clock, partial(self._pause_s, took))
                began = self._clock.monotonic()
                self.check()
                with suppress(StoreFileError):  # it was told, and is tried again
                    await self._file.saved()
                took = self._clock.monotonic() - began
        finally:
            self.check()

    def _pause_s(self, took: float) -> float:
        interval = max(0.1, self._interval_ms() / 1000)
        return min(interval, max(OFTEN_S, _REST * took)) if self._often else interval

    def check(self) -> None:
        """Commits since the last time make the file dirty."""
        if self._offsets.changes != self._written:
            self._written = self._offsets.changes
            self._file.changed()
