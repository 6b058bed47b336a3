"""Building the index behind the writer (classes ReputMessageService, IndexService; consumequeue-index.md §3.3).

A put only appends what the index will need to ``pending``; some milliseconds later ``run`` turns it into items, in steps
of a few hundred (less than a millisecond), one step per turn of the event loop, more when too much waits. A new file is
made in a thread. When that fails (the disk is full) the store refuses messages until it succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import Final

from .errors import StoreFileError
from .index_files import IndexFiles
from .index_keys import UNIQUE_KEY_AT, hash_keys, keys_of, topic_prefix
from .log_stretch import DispatchRequest, Stretch
from .mapped_file import MappedFile
from .status import Clock

__all__ = ["Indexing", "PendingMessage"]

log: Final = logging.getLogger(__name__)

_STEP: Final = 512
"""Items written at once, at most: a quarter of a millisecond."""
_LEAST_STEP: Final = 64
_STEP_SECONDS: Final = 0.0007
"""A step that takes longer halves the next one: after the file was written back to the disk every slot is a page fault."""
_GATHER_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0
_TOO_MANY: Final = 2_000
"""For every so many messages that wait, one more step is done per turn."""
_ROLLED_BACK: Final = 0xC
_MAX_PREFIXES: Final = 10_000

PendingMessage = tuple[int, str, bytes, int, int, int]
"""``(phy_offset, topic, properties, store_timestamp, sys_flag, keys_end)``; see ``MessageWriter.put_message``"""


class Indexing:
    """Messages on their way into the index files."""

    def __init__(self, files: IndexFiles, clock: Clock) -> None:
        self.pending: Final[list[PendingMessage]] = []
        """The writer appends; the list stays the same one."""
        self.wake: Callable[[], None] = _nobody
        """Called when the first message comes."""
        self.on_blocked: Callable[[StoreFileError | None], None] = _ignore
        """Called with the error when there is no room for another file, with None when there is again."""
        self._files: Final = files
        self._clock: Final = clock
        self._keys: list[bytes] = []  # of the items that are not written yet
        self._heads: list[tuple[int, int, int]] = []  # and their prefix, physical offset, store time
        self._prefixes: dict[str, int] = {}
        self._size = _STEP
        self._done_offset = -1
        self._done_items = 0
        self._making: Future[MappedFile] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-index")

    @property
    def waits(self) -> bool:
        """Something is not in the files yet."""
        return bool(self.pending or self._keys)

    def position(self, log_end: int) -> int:
        """Every message below has its items in the files; ``log_end`` when nothing waits."""
        if self._keys:
            return self._heads[0][1]
        return self.pending[0][0] if self.pending else log_end

    def note(self, messages: list[PendingMessage]) -> None:
        """The messages of a batch were put. (Single ones the writer itself notes: a call would cost more than that.)"""
        if not self.pending:
            self.wake()
        self.pending.extend(messages)

    # -- recovery

    def go_on(self) -> None:
        """Messages that are in the files already are passed over from now on (``dispatch``). Raises as ``build_all``."""
        self.build_all()
        self._done_offset = self._files.end_phy_offset
        self._done_items = self._files.items_at_end()

    def dispatch(self, request: DispatchRequest) -> None:
        """A record read from the log, in order; blocks now and then. Raises OutOfSpaceError, StoreFileError."""
        if request.phy_offset < self._done_offset:
            return
        self.pending.append(
            (request.phy_offset, request.topic, request.properties, request.store_timestamp, request.sys_flag, 0)
        )
        if request.phy_offset == self._done_offset:  # its last items may be missing
            self._take_pending()
            self._forget(self._done_items)
        if len(self.pending) >= _STEP:
            self.build_all()

    def dispatch_stretch(self, stretch: Stretch) -> None:
        """The same for many records."""
        if int(stretch.phy_offsets[0]) <= self._done_offset:
            for request in stretch.requests():
                self.dispatch(request)
            return
        self.build_all()
        phy_offsets, timestamps = stretch.phy_offsets.tolist(), stretch.store_timestamps.tolist()
        if None in stretch.only_keys or (stretch.sys_flags & _ROLLED_BACK == _ROLLED_BACK).any():
            flags = stretch.sys_flags.tolist()
            self.pending.extend(zip(phy_offsets, stretch.topics, stretch.properties, timestamps, flags, repeat(0)))
        else:
            known = {topic: topic_prefix(topic) for topic in set(stretch.topics)}
            prefixes = [known[topic] for topic in stretch.topics]
            self._write(prefixes, stretch.only_keys, phy_offsets, timestamps)  # type: ignore[arg-type]  # there is no None
        self.build_all()

    def _write(self, prefixes: list[int], keys: list[bytes], phy_offsets: list[int], timestamps: list[int]) -> None:
        """Items straight into the files, while nothing else waits."""
        at = 0
        while at < len(keys):
            index = self._files.current()
            if index is None:
                self._files.use(self._files.make())
                continue
            part = slice(at, at + min(index.room, _STEP))
            index.put(hash_keys(prefixes[part], keys[part]), phy_offsets[part], timestamps[part])
            at = part.stop

    def build_all(self) -> None:
        """Everything that waits; blocks when a file has to be made. Raises OutOfSpaceError, StoreFileError."""
        while self.waits:
            if not self.step():
                self._files.use(self._files.make())

    # -- the work

    def step(self) -> bool:
        """Write some items. False when a new file has to be made first."""
        self._take_pending()
        if not self._keys:
            return True
        index = self._files.current()
        if index is None:
            return False
        began = self._clock.monotonic()
        count = min(len(self._keys), index.room, self._size)
        prefixes, phy_offsets, timestamps = zip(*self._heads[:count], strict=True)
        index.put(hash_keys(prefixes, self._keys[:count]), phy_offsets, timestamps)
        self._forget(count)
        took = self._clock.monotonic() - began
        self._size = max(_LEAST_STEP, self._size // 2) if took > _STEP_SECONDS else min(_STEP, self._size * 2)
        return True

    def _forget(self, count: int) -> None:
        del self._keys[:count]
        del self._heads[:count]

    def _take_pending(self) -> None:
        """Messages into items, until there are enough for a step."""
        pending, prefixes, keys, heads = self.pending, self._prefixes, self._keys, self._heads
        taken = 0
        for phy_offset, topic, properties, timestamp, sys_flag, keys_end in pending[:_STEP]:
            if len(keys) >= _STEP:
                break
            taken += 1
            if sys_flag & _ROLLED_BACK == _ROLLED_BACK:
                continue
            prefix = prefixes.get(topic)
            if prefix is None:
                if len(prefixes) >= _MAX_PREFIXES:
                    prefixes.clear()
                prefix = prefixes[topic] = topic_prefix(topic)
            if keys_end:
                keys.append(properties[UNIQUE_KEY_AT:keys_end])
                heads.append((prefix, phy_offset, timestamp))
                continue
            found = keys_of(properties)
            keys += found
            heads += [(prefix, phy_offset, timestamp)] * len(found)
        del pending[:taken]

    # -- the service

    async def run(self) -> None:
        """Work until cancelled."""
        wanted = asyncio.Event()
        self.wake = wanted.set
        if self.waits:
            wanted.set()
        try:
            while True:
                await wanted.wait()
                wanted.clear()
                await self._clock.sleep(_GATHER_SECONDS)
                last = self._last_offset()
                while self.position(last + 1) <= last:
                    await self._turn()
                if self.waits:
                    wanted.set()
        finally:
            self.wake = _nobody

    def _last_offset(self) -> int:
        """Of the message that came last; what comes from now on is gathered again: small steps cost twice as much."""
        return self.pending[-1][0] if self.pending else self._heads[-1][1] if self._heads else -1

    async def _turn(self) -> None:
        for _ in range(1 + len(self.pending) // _TOO_MANY):
            if not self.step():
                self._files.use(await self._make_file())
        await asyncio.sleep(0)

    async def _make_file(self) -> MappedFile:
        """A new file, made in a thread. A full disk is tried again every second."""
        blocked = False
        while True:
            self._making = self._threads.submit(self._files.make)
            try:
                file = await asyncio.wrap_future(self._making)
            except StoreFileError as error:
                if not blocked:
                    log.error("no room for the index, messages are refused meanwhile: %s", error)
                blocked = True
                self.on_blocked(error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                if blocked:
                    self.on_blocked(None)
                self._making = None
                return file

    def close(self) -> bool:
        """Build what waits; blocks. False when that failed: then the index has to be completed from the log."""
        self._threads.shutdown(wait=True)
        making = self._making
        try:
            if making is not None and not making.cancelled() and making.exception() is None:
                self._files.use(making.result())  # nobody waited for it any more
            self.build_all()
        except StoreFileError as error:
            log.error("the index could not be completed, this is done when the store is opened again: %s", error)
            return False
        return True


def _nobody() -> None:
    pass


def _ignore(_error: StoreFileError | None) -> None:
    pass
