"""The index is built beside the writer (class IndexService).

Room for more items, or a new file, is made in a thread. When that fails (the disk is full) the
store refuses messages until it succeeds. Who looks for messages waits for what is not built yet
(``caught_up``), so that nothing is missing that was stored before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..disk.mapped_file import MappedFile
from ..index.index_files import IndexFiles
from ..index.indexing import Indexing
from ..model.errors import StoreFileError

log: Final = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 0.02
"""So long keys are collected: small steps cost twice as much."""
_RETRY_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 2.0
"""So long ``caught_up`` waits: room that could not be made has been tried again by then, and who
asks has not given up (tools of the original wait 6 s)."""
_MOST_WAITING: Final = 1000
"""So many may; others know at once."""


class IndexingService:
    """Does the steps of an Indexing."""

    def __init__(self, indexing: Indexing, files: IndexFiles, clock: Clock) -> None:
        self.on_blocked: Callable[[StoreFileError | None], None] = lambda _error: None
        """Called with the error when there is no space for another file, with None when there is
        again."""
        self._indexing: Final = indexing
        self._files: Final = files
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._making: Future[MappedFile] | None = None
        self._waiting: Final[dict[asyncio.Future[bool], int]] = {}
        """Who waits for the message at an offset, in the order in which they came."""
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-index")

    async def run(self) -> None:
        """Work until cancelled."""
        indexing, wanted = self._indexing, asyncio.Event()
        indexing.on_keys = wanted.set
        while True:
            wanted.clear()
            indexing.idle = not indexing.waits
            if indexing.idle:
                await wanted.wait()
            await self._clock.sleep(_GATHER_SECONDS)
            last = indexing.last_offset()  # what comes from now on is gathered again
            while not self._has(last):
                await self._turn()
            self._tell()

    async def _turn(self) -> None:
        for _ in range(self._indexing.steps_of_a_turn()):
            if not self._indexing.step():
                self._files.use(await self._make_room())
        self._tell()
        await asyncio.sleep(0)

    def _has(self, offset: int) -> bool:
        """The message there is in the files, and all before it."""
        return self._indexing.position(offset + 1) > offset

    def _tell(self) -> None:
        for waiter, offset in self._waiting.items():
            if not self._has(offset):
                break
            _end(waiter, has_all=True)

    async def caught_up(self) -> bool:
        """Return when all that waits now is in the files; at once when nothing does. False: it is
        not, that takes more than ``_WAIT_SECONDS``, or too many wait already."""
        indexing, waiting = self._indexing, self._waiting
        if not indexing.waits:
            return True
        indexing.step()  # all of what was put a moment ago
        last = indexing.last_offset()
        if self._has(last):
            return True
        if len(waiting) >= _MOST_WAITING:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting[waiter] = last
        timer = self._clock.call_later(_WAIT_SECONDS, partial(_end, waiter, has_all=False))
        try:
            return await waiter
        finally:
            timer.cancel()
            del waiting[waiter]

    async def _make_room(self) -> MappedFile:
        """Made in a thread. A full disk is tried again every second."""
        blocked, outages = False, self._outages
        while True:
            self._making = self._threads.submit(self._files.make)
            try:
                file = await asyncio.wrap_future(self._making)
            except StoreFileError as error:
                text = "no room for the index, messages are refused meanwhile: %s"
                outages.fails(log, ("index",), text, error, level=logging.ERROR)
                blocked = True
                self.on_blocked(error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                if blocked:
                    outages.works(("index",))
                    self.on_blocked(None)
                self._making = None
                return file

    def close(self) -> bool:
        """Build what waits; blocks. False when that failed: see ``Indexing``."""
        self._threads.shutdown(wait=True)
        making = self._making
        if making is not None and not making.cancelled() and making.exception() is None:
            self._files.use(making.result())  # nobody waited for it any more
        return self._indexing.close()


def _end(waiter: asyncio.Future[bool], *, has_all: bool) -> None:
    if not waiter.done():
        waiter.set_result(has_all)
