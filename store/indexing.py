"""Building the index behind the writer (classes ReputMessageService, IndexService; consumequeue-index.md §3.3).

A put only appends what the index will need to ``pending``; some milliseconds later ``run`` turns it into items, in steps
of a few hundred (less than a millisecond), one step per turn of the event loop, more when too much waits. A new file is
made in a thread. When that fails (the disk is full) the store refuses messages until it succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import Any, Final, NamedTuple

from .errors import StoreFileError
from .index_file import IndexFile
from .index_files import IndexFiles
from .index_keys import UNIQUE_KEY_AT, hash_keys, hash_rows, keys_of, topic_prefix
from .log_stretch import DispatchRequest, Stretch
from .mapped_file import MappedFile
from .status import Clock

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["Indexing", "PendingMessage"]

log: Final = logging.getLogger(__name__)

_STEP: Final = 512
"""Messages whose keys are looked at one by one, and their items written at once, at most: a quarter of a millisecond."""
_LARGEST_STEP: Final = 8192
"""Items of blocks written at once, at most: twice that."""
_LEAST_STEP: Final = 64
_FIRST_STEP: Final = 128
_STEP_SECONDS: Final = 0.0007
"""A step that takes longer halves the next one, a whole one that takes less than half of it doubles it: after the file was
written back to the disk every slot is a page fault, so the first steps are small."""
_GATHER_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0
_TOO_MANY: Final = 2_000
"""For every so many messages that wait, or twice what a step may write, one more step is done per turn."""
_ROLLED_BACK: Final = 0xC
_MAX_PREFIXES: Final = 10_000

PendingMessage = tuple[int, str, bytes, int, int, int]
"""``(phy_offset, topic, properties, store_timestamp, sys_flag, keys_end)``; see ``MessageWriter.put_message``"""


class Block(NamedTuple):
    """Items of many messages, in order; arrays of numpy."""

    hashes: Any
    phy_offsets: Any
    timestamps: Any


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
        self._queue: deque[Block | list[PendingMessage]] = deque()
        """What came before a block, the block, and so on; older than ``pending``, younger than ``_keys``."""
        self._in_queue = 0
        self._prefixes: dict[str, int] = {}
        self._size = _STEP
        self._done_offset = -1
        self._done_items = 0
        self._making: Future[MappedFile] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-index")

    @property
    def waits(self) -> bool:
        """Something is not in the files yet."""
        return bool(self.pending or self._keys or self._queue)

    @property
    def waiting(self) -> int:
        """How many messages do, about."""
        return len(self.pending) + len(self._keys) + self._in_queue

    def position(self, log_end: int) -> int:
        """Every message below has its items in the files; ``log_end`` when nothing waits."""
        if self._keys:
            return self._heads[0][1]
        first = self._queue[0] if self._queue else self.pending
        if not isinstance(first, list):
            return int(first.phy_offsets[0])
        return first[0][0] if first else log_end

    def note(self, messages: list[PendingMessage]) -> None:
        """The messages of a batch were put. (Single ones the writer itself notes: a call would cost more than that.)"""
        if not self.pending:
            self.wake()
        self.pending.extend(messages)

    def note_stretch(self, stretch: Stretch) -> None:
        """The same for messages that a slave got many at once, whose keys are hashed here and now, many at once too."""
        hashes = None
        keys = stretch.unique_keys
        if keys is not None and stretch.all_flags & _ROLLED_BACK != _ROLLED_BACK:
            hashes = hash_rows(stretch.of_topics(list(map(self._prefix, stretch.names))), keys)
        columns = (stretch.phy_offsets, stretch.store_timestamps)
        if hashes is None:
            phy_offsets, timestamps, flags = (column.tolist() for column in (*columns, stretch.sys_flags))
            self.note(list(zip(phy_offsets, stretch.topics, stretch.properties, timestamps, flags, repeat(0))))
            return
        self._note_block(Block(hashes, *columns))

    def _note_block(self, block: Block) -> None:
        if self.pending:
            self._queue.append(self.pending[:])
            self._in_queue += len(self.pending)
            self.pending.clear()
        self._queue.append(block)
        self._in_queue += len(block.phy_offsets)
        self.wake()

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
        self.note_stretch(stretch)
        self.build_all()

    def build_all(self) -> None:
        """Everything that waits; blocks when a file has to be made. Raises OutOfSpaceError, StoreFileError."""
        while self.waits:
            if not self.step():
                self._files.use(self._files.make())

    # -- the work

    def step(self) -> bool:
        """Write some items. False when a new file has to be made first."""
        first = self._queue[0] if self._queue and not self._keys else None
        block = first if isinstance(first, Block) else None
        if block is None:
            self._take_pending()
            if not self._keys:
                return True
        if self._files.synced:
            self._size = min(self._size, _FIRST_STEP)
        index = self._files.current()
        if index is None:
            return False
        began = self._clock.monotonic()
        if block is not None:
            block = self._joined(block)
            count = min(len(block.hashes), index.room, self._size)
            self._put_block(index, block, count)
        else:
            count = min(len(self._keys), index.room, self._size)
            prefixes, phy_offsets, timestamps = zip(*self._heads[:count], strict=True)
            index.put(hash_keys(prefixes, self._keys[:count]), phy_offsets, timestamps)
            self._forget(count)
        took = self._clock.monotonic() - began
        if took > _STEP_SECONDS:
            self._size = max(_LEAST_STEP, self._size // 2)
        elif took < _STEP_SECONDS / 2 and count == self._size:
            self._size = min(_LARGEST_STEP, self._size * 2)
        return True

    def _joined(self, block: Block) -> Block:
        """The first block of the queue, made one with those behind it, until there is enough for a step."""
        queue, parts, count = self._queue, [block], len(block.hashes)
        while count < self._size and len(queue) > 1 and isinstance(following := queue[1], Block):
            parts.append(following)
            count += len(following.hashes)
            del queue[1]
        if len(parts) > 1:
            queue[0] = block = Block(*map(numpy.concatenate, zip(*parts, strict=True)))
        return block

    def _put_block(self, index: IndexFile, block: Block, count: int) -> None:
        index.put(*(column[:count] for column in block))
        self._in_queue -= count
        if count < len(block.hashes):
            self._queue[0] = Block(*(column[count:] for column in block))
        else:
            self._queue.popleft()

    def _forget(self, count: int) -> None:
        del self._keys[:count]
        del self._heads[:count]

    def _take_pending(self) -> None:
        """Messages into items, until there are enough for a step."""
        pending = self._queue[0] if self._queue else self.pending
        if not isinstance(pending, list):  # first what is in front of it
            return
        prefixes, keys, heads = self._prefixes, self._keys, self._heads
        taken = 0
        for phy_offset, topic, properties, timestamp, sys_flag, keys_end in pending[:_STEP]:
            if len(keys) >= _STEP:
                break
            taken += 1
            if sys_flag & _ROLLED_BACK == _ROLLED_BACK:
                continue
            prefix = prefixes.get(topic)
            if prefix is None:
                prefix = self._prefix(topic)
            if keys_end > 0:
                keys.append(properties[UNIQUE_KEY_AT:keys_end])
                heads.append((prefix, phy_offset, timestamp))
                continue
            if keys_end < 0:
                continue
            found = keys_of(properties)
            keys += found
            heads += [(prefix, phy_offset, timestamp)] * len(found)
        del pending[:taken]
        if self._queue:
            self._in_queue -= taken
            if not pending:
                self._queue.popleft()

    def _prefix(self, topic: str) -> int:
        prefix = self._prefixes.get(topic)
        if prefix is None:
            if len(self._prefixes) >= _MAX_PREFIXES:
                self._prefixes.clear()
            prefix = self._prefixes[topic] = topic_prefix(topic)
        return prefix

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
        last = self._queue[-1] if self._queue and not self.pending else self.pending
        if not isinstance(last, list):
            return int(last.phy_offsets[-1])
        return last[-1][0] if last else self._heads[-1][1] if self._heads else -1

    async def _turn(self) -> None:
        for _ in range(1 + self.waiting // max(_TOO_MANY, 2 * self._size)):
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
