"""Index files against the log: header, slots and chains, and the items of every record
(consumequeue-index.md §3)."""

from __future__ import annotations

import os
import struct
import sys
from array import array
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.protocol.message.index_keys import TopicPrefixes, hash_keys, keys_of
from ...store.index.index_file import HEADER_SIZE, ITEM
from ...store.log.log_reader import LogRecord
from .findings import Finding, Findings

__all__ = ["IndexCheck", "IndexHeader", "index_paths", "read_header"]

_HEADER: Final = struct.Struct(">qqqqii")
_ROLLBACK: Final = 0xC
_ITEMS_AT_ONCE: Final = 4096
_RECORDS_AT_ONCE: Final = 512
_INT_MAX: Final = 0x7FFFFFFF
_DEFAULT_RATIO: Final = 4
"""Items for every slot, as configured by default."""


class IndexHeader(NamedTuple):
    """The first 40 bytes of an index file, and its length."""

    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    slots_used: int
    next_item: int
    """Number of the next item."""
    length: int

    @property
    def slots(self) -> int:
        """Found out from the length, if there are four items for each slot (the default); 0 when
        there are not."""
        slots, rest = divmod(self.length - HEADER_SIZE, 4 + _DEFAULT_RATIO * ITEM.size)
        return 0 if rest else slots


class _Item(NamedTuple):
    path: Path
    byte: int
    number: int
    hashed: int
    phy_offset: int
    seconds: int
    begin_timestamp: int


class _Record(NamedTuple):
    phy_offset: int
    store_timestamp: int
    prefix: int
    keys: list[bytes]


def index_paths(root: Path) -> tuple[list[Path], list[Path]]:
    """The index files from the oldest on, and what else lies there."""
    folder = root / "index"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    own = [path for path in paths if path.is_file() and path.name.isascii() and path.name.isdigit()]
    return own, [path for path in paths if path not in own]


def read_header(path: Path) -> IndexHeader | None:
    """None for a file that is too short. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEADER_SIZE)
        length = os.fstat(file.fileno()).st_size
    return IndexHeader._make((*_HEADER.unpack(head), length)) if len(head) == HEADER_SIZE else None


class IndexCheck:
    """One check of all index files; records come in the order of the log."""

    def __init__(
        self,
        root: Path,
        log_start: int,
        findings: Findings,
        *,
        slots: int | None,
        recoverable: bool,
    ) -> None:
        self.items: int = 0
        self._findings: Final = findings
        self._log_start: Final = log_start
        self._slots: Final = slots
        self._recoverable: Final = recoverable
        self._damaged: list[tuple[int, int]] = []
        self._prefixes = TopicPrefixes()
        self._waiting: list[_Record] = []
        self._lacking: list[tuple[int, int, int, Path]] = []
        """Records without items: first, last, how many, the file where the items should be."""
        self._lacks = False
        """The last record with keys had no items."""
        self._last_path: Path | None = None
        self.paths: list[Path]
        self.paths, foreign = index_paths(root)
        self._folder: Final = root / "index"
        for path in foreign:
            findings.note(path, "is not an index file (a name of digits): brokers leave it alone")
        counted = Counter(path.stat().st_size for path in self.paths)
        self._usual_length: Final = max(
            counted, key=lambda length: (counted[length], length), default=0
        )
        self._stream: Final = self._all_items()
        self._next = next(self._stream, None)

    # -- while the log is read

    def damaged(self, begin: int, end: int) -> None:
        """A part of the log that cannot be read: items may point into it."""
        insort(self._damaged, (begin, end))

    def record(self, record: LogRecord) -> None:
        """Look for the items of a record."""
        if not self.paths:
            return
        rolled_back = record.sys_flag & _ROLLBACK == _ROLLBACK
        prefix = self._prefixes[record.topic]
        keys = [] if rolled_back else keys_of(record.properties)
        self._waiting.append(_Record(record.phy_offset, record.store_timestamp, prefix, keys))
        if len(self._waiting) >= _RECORDS_AT_ONCE:
            self._compare_waiting()

    def _compare_waiting(self) -> None:
        records, self._waiting = self._waiting, []
        keys = [key for record in records for key in record.keys]
        prefixes = [record.prefix for record in records for _ in record.keys]
        hashes = iter(hash_keys(prefixes, keys))
        found: list[Finding] = []
        for record in records:
            found += self._compare(record, [next(hashes) for _ in record.keys])
        self._findings.add(found)

    def _compare(self, record: _Record, expected: list[int]) -> Iterator[Finding]:
        yield from self._skip_to(record.phy_offset)
        actual: list[int] = []
        while (item := self._next) is not None and item.phy_offset == record.phy_offset:
            actual.append(item.hashed)
            if item.hashed not in expected:
                problem = (
                    f"has the hash {item.hashed}, which is that of no key of the record at "
                    f"{item.phy_offset}"
                )
                yield self._about(item, problem)
            elif item.number > 1 and item.seconds != (
                seconds := _seconds(item.begin_timestamp, record.store_timestamp)
            ):
                problem = (
                    f"says {item.seconds} s, the record at {item.phy_offset} was stored "
                    f"{seconds} s after the first one"
                )
                yield self._about(item, problem)
            self._next = next(self._stream, None)
        if not actual and expected:
            self._lack(record.phy_offset)
            return
        self._lacks = self._lacks and not expected
        lacking = set(expected) - set(actual)
        for hashed in sorted(lacking) if len(lacking) > len(set(actual) - set(expected)) else ():
            path = self._last_path or self._folder
            yield self._findings.at(
                path, 0, f"a key (hash {hashed}) of the record at {record.phy_offset} has no item"
            )

    def _skip_to(self, phy_offset: int) -> Iterator[Finding]:
        """Items in front of a record that no record has claimed."""
        while (item := self._next) is not None and item.phy_offset < phy_offset:
            if item.phy_offset >= self._log_start and not self._is_damaged(item.phy_offset):
                yield self._about(item, f"points to {item.phy_offset}, where no record begins")
            self._next = next(self._stream, None)

    def _lack(self, phy_offset: int) -> None:
        if self._lacks:
            first, _, count, path = self._lacking[-1]
            self._lacking[-1] = (first, phy_offset, count + 1, path)
        else:
            self._lacking.append((phy_offset, phy_offset, 1, self._last_path or self._folder))
        self._lacks = True

    # -- at the end of the log

    def finish(self, log_end: int) -> None:
        """Tell what is left over."""
        self._compare_waiting()
        found: list[Finding] = []
        behind = 0
        first: _Item | None = None
        while (item := self._next) is not None:
            if item.phy_offset >= log_end:
                first = first or item
                behind += 1
            elif item.phy_offset >= self._log_start and not self._is_damaged(item.phy_offset):
                found.append(
                    self._about(item, f"points to {item.phy_offset}, where no record begins")
                )
            self._next = next(self._stream, None)
        if first is not None:
            problem = (
                f"points to {first.phy_offset}, behind the end {log_end} of the commit log "
                f"({behind} items do)"
            )
            found.append(self._about(first, problem, recoverable=self._recoverable))
        for number, (begin, last, count, path) in enumerate(self._lacking, 1):
            at_end = self._lacks and number == len(self._lacking)
            if begin == last:
                problem = f"the record at {begin} has keys and no items"
            else:
                problem = f"{count} records from {begin} to {last} have keys and no items"
            found.append(
                self._findings.at(path, 0, problem, recoverable=at_end and self._recoverable)
            )
        self._findings.add(found)
        if not self.paths:
            self._findings.note(
                self._folder, "there is no index: messages cannot be queried by key"
            )

    def _about(self, item: _Item, problem: str, *, recoverable: bool = False) -> Finding:
        return self._findings.at(
            item.path, item.byte, f"item {item.number} {problem}", recoverable=recoverable
        )

    def _is_damaged(self, phy_offset: int) -> bool:
        at = bisect_right(self._damaged, (phy_offset, 1 << 63)) - 1
        return at >= 0 and self._damaged[at][0] <= phy_offset < self._damaged[at][1]

    # -- the files themselves

    def _all_items(self) -> Iterator[_Item]:
        """Items whose offsets grow. Of two in the wrong order it is the one that does not fit to
        those around it."""
        before = -1
        held: _Item | None = None
        for item in self._items_of_files():
            if held is not None and item.phy_offset < held.phy_offset:
                wrong, held = (held, item) if item.phy_offset >= before else (item, held)
                self._findings.add(
                    [
                        self._about(
                            wrong,
                            f"points to {wrong.phy_offset}, which does not fit to its neighbours",
                        )
                    ]
                )
                continue
            if held is not None:
                before = held.phy_offset
                yield held
            held = item
        if held is not None:
            yield held

    def _items_of_files(self) -> Iterator[_Item]:
        for path in self.paths:
            self._last_path = path
            try:
                yield from self._items_of(path)
            except OSError as error:
                self._findings.damage(path, 0, f"cannot be read: {error.strerror}")

    def _items_of(self, path: Path) -> Iterator[_Item]:
        header = read_header(path)
        if header is None:
            self._findings.damage(
                path, 0, "is too short for an index file", recoverable=self._recoverable
            )
            return
        if header.length != self._usual_length:
            problem = f"is {header.length} bytes long, most index files have {self._usual_length}"
            self._findings.damage(path, min(header.length, self._usual_length), problem)
        slots = (
            header._replace(length=self._usual_length).slots if self._slots is None else self._slots
        )
        items_at = HEADER_SIZE + slots * 4
        capacity = (header.length - items_at) // ITEM.size
        if not slots or capacity < 1:
            self._findings.damage(
                path,
                0,
                f"{header.length} bytes do not fit an index file: give the number of --slots",
            )
            return
        if header.next_item > capacity or header.next_item < 0:
            problem = (
                f"the next item is said to be number {header.next_item}, the file has room for "
                f"{capacity}"
            )
            self._findings.damage(path, 36, problem, recoverable=self._recoverable)
        count = min(header.next_item, capacity)
        with path.open("rb", buffering=0) as file:
            newest = array("i", bytes(slots * 4))
            first = last = None
            for item, older in self._raw_items(file.fileno(), path, header, items_at, count):
                slot = item.hashed % slots
                if item.hashed < 0 or older != newest[slot]:
                    problem = (
                        f"the item in front of it in slot {slot} is said to be {older}, it is "
                        f"{newest[slot]}"
                    )
                    self._findings.damage(
                        path,
                        item.byte + 16,
                        f"item {item.number}: {problem}",
                        recoverable=self._recoverable,
                    )
                newest[slot] = item.number
                self.items += 1
                first, last = first or item, item
                yield item
            if header.length >= self._usual_length:  # else they begin with items that are cut off
                self._compare_slots(file.fileno(), path, newest)
        if first is not None and last is not None and header.length >= self._usual_length:
            self._compare_header(path, header, first, last, slots - newest.count(0))

    def _raw_items(
        self, fd: int, path: Path, header: IndexHeader, items_at: int, count: int
    ) -> Iterator[tuple[_Item, int]]:
        for start in range(1, count, _ITEMS_AT_ONCE):
            at = items_at + start * ITEM.size
            data = os.pread(fd, min(_ITEMS_AT_ONCE, count - start) * ITEM.size, at)
            data = data[: len(data) - len(data) % ITEM.size]
            for number, (hashed, phy_offset, seconds, older) in enumerate(
                ITEM.iter_unpack(data), start
            ):
                byte = items_at + number * ITEM.size
                yield (
                    _Item(path, byte, number, hashed, phy_offset, seconds, header.begin_timestamp),
                    older,
                )

    def _compare_slots(self, fd: int, path: Path, newest: array[int]) -> None:
        if sys.byteorder == "little":
            expected = array("i", newest)
            expected.byteswap()
        else:
            expected = newest
        stored = os.pread(fd, len(newest) * 4, HEADER_SIZE)
        if stored == expected.tobytes():
            return
        for slot in range(len(stored) // 4):
            value = int.from_bytes(stored[slot * 4 : slot * 4 + 4], "big", signed=True)
            if value != newest[slot]:
                problem = (
                    f"slot {slot} begins with item {value}, the newest one in it is {newest[slot]}"
                )
                self._findings.damage(
                    path, HEADER_SIZE + slot * 4, problem, recoverable=self._recoverable
                )

    def _compare_header(
        self, path: Path, header: IndexHeader, first: _Item, last: _Item, used: int
    ) -> None:
        for byte, name, said, found in (
            (16, "the first message is", header.begin_phy_offset, first.phy_offset),
            (24, "the last message is", header.end_phy_offset, last.phy_offset),
            (32, "the number of slots in use is", header.slots_used, used),
        ):
            if said != found:
                problem = f"{name} said to be {said}, it is {found}"
                self._findings.damage(path, byte, problem, recoverable=self._recoverable)


def _seconds(begin: int, timestamp: int) -> int:
    """What an item has for a store time."""
    return min((timestamp - begin) // 1000, _INT_MAX) if begin > 0 and timestamp > begin else 0
