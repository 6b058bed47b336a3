"""What lies on the disk: whole stores of which one file is another, and the small files."""

from __future__ import annotations

import functools
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.dledger.state_files import CommitFile, HardStateFile, MemberMarker
from aiorocketmq.store.inspect import StoreDirectory
from aiorocketmq.store.log.log_reader import Damage, LogReader
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreError
from aiorocketmq.store.queues.queue_ends import _decode as decode_ends
from aiorocketmq.store.queues.queue_units import UnitChain
from aiorocketmq.tools.mqstore.index_check import read_header
from aiorocketmq.tools.mqstore.verify import verify

from ..store.log.entry_world import EntryWorld
from ..store.memory_disk import Content, MemoryDisk
from ..store.world import bodies_of, open_store, put_ok
from .parsers import Parser, same

_ROOT: Final = Path("/s")
_SIZES: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "enable_consume_queue_ext": True,
    "mapped_file_size_consume_queue_ext": 400,
}


@functools.cache
def _stores() -> tuple[MemoryDisk, MemoryDisk]:
    """One that was closed, and one whose process was killed."""
    disk = MemoryDisk()
    store = open_store(_ROOT, disk, **_SIZES)
    for number in range(8):
        properties = {"KEYS": f"k{number}", "UNIQ_KEY": f"U{number}", "TAGS": "a"}
        put_ok(store, queue_id=number % 2, body=bytes(number * 60), properties=properties)
    killed = disk.copy()
    store.close()
    return disk.copy(), killed


def _kinds() -> list[str]:
    return sorted(_stores()[0].files)


def _store(data: bytes) -> object:
    """The first byte chooses the file that begins with the rest of the input, and the store. It is
    opened and read through; what is put into it then is there."""
    which = data[0] if data else 0
    disk = _stores()[which & 1].copy()
    names = sorted(disk.files)
    content = disk.files[names[(which >> 1) % len(names)]]
    _begin_with(content, data[1:])
    store = open_store(_ROOT, disk, **_SIZES)
    try:
        _look_through(store)
        before = store.max_offset("T", 0)
        put_ok(store, body=b"afterwards")
        same(store.max_offset("T", 0), before + 1, "the number of the next message")
        same(bodies_of(store)[-1:], [b"afterwards"], "what was put afterwards")
    finally:
        store.close()
    return None


def _begin_with(content: Content, data: bytes) -> None:
    size = len(content)
    content[: min(size, len(data))] = data[:size]


def _look_through(store: MessageStore) -> None:
    for topic, queue_id in (("T", 0), ("T", 1), ("U", 0)):
        bodies_of(store, topic, queue_id)
        store.entries.offset_by_time(topic, queue_id, 1_700_000_000_000)
    for offset in (0, 7, store.min_phy_offset, store.max_phy_offset - 1):
        store.message_by_offset(offset)


def _store_files() -> Iterator[bytes]:
    """Each file as it is, without the zeros behind it."""
    for store in (0, 1):
        disk = _stores()[store]
        for number, name in enumerate(sorted(disk.files)):
            content = bytes(disk.files[name])
            end = len(content) if name.endswith("checkpoint") else len(content.rstrip(b"\0"))
            yield bytes([number << 1 | store]) + content[:end]


def _offline(data: bytes) -> object:
    """The same damage, looked at by ``mqstore verify`` and the readers that change nothing."""
    which = data[0] if data else 0
    disk = _stores()[which & 1].copy()
    names = sorted(disk.files)
    _begin_with(disk.files[names[(which >> 1) % len(names)]], data[1:])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in disk.files.items():
            path = root / name.removeprefix("/s/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        lines: list[str] = []
        verify(root, lines.append, slots=10)
        found = list(LogReader(StoreDirectory(root).log_files()).read())
        for path in (root / "index").glob("*"):
            read_header(path)
        return len(lines), sum(isinstance(each, Damage) for each in found)


def _checkpoint(data: bytes) -> object:
    disk = _one_file("/d/checkpoint", data)
    checkpoint = Checkpoint(Path("/d/checkpoint"), disk)
    checkpoint.load()
    checkpoint.save()
    again = Checkpoint(Path("/d/checkpoint"), disk)
    again.load()
    same(again.timestamps, checkpoint.timestamps, "written and read again")
    return checkpoint.min_timestamp


def _one_file(path: str, data: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.folders |= {"/d", "/d/config"}
    disk.files[path] = Content(data)
    return disk


def _ends(data: bytes) -> object:
    """With the checksum that it says it has, or no input would ever come behind that."""
    found = decode_ends(data)
    end = max(0, len(data) - 4)
    sealed = data[:end] + struct.pack(">I", zlib.crc32(data[:end]))
    decode_ends(sealed)
    return found


def _known_ends() -> Iterator[bytes]:
    yield bytes(_stores()[0].files["/s/queueends"])


def _states(data: bytes) -> object:
    """``currterm``, ``checkpoint`` and the marker of a member, one text for all."""
    for name in ("currterm", "currterm.tmp"):
        HardStateFile(Path("/d"), _one_file(f"/d/{name}", data)).load()
    CommitFile(Path("/d"), _one_file("/d/checkpoint", data)).load()
    return MemberMarker(Path("/d"), _one_file("/d/config/dledgerMember.json", data)).load("G", "n0")


def _state_seeds() -> Iterator[bytes]:
    yield b"voteLeader=n1\ncurrTerm=7\n"
    yield b"committedIndex=5\nendIndex=9\nentryChecksums=1\n"
    yield b'{"group":"G","selfId":"n0","syncedIndex":5,"votes":true}'


@functools.cache
def _member() -> MemoryDisk:
    world = EntryWorld()
    world.put(*(bytes(number * 90) for number in range(12)))
    world.log.note()
    return world.disk


def _entry_log(data: bytes) -> object:
    """A file of a member's log, its index or its checksums begins with the input; then the log is
    opened, read and written."""
    disk = _member().copy()
    names = sorted(disk.files)
    _begin_with(disk.files[names[(data[0] if data else 0) % len(names)]], data[1:])
    world = EntryWorld(disk)
    before = _entries_of(world)
    world.put(b"afterwards")
    after = _entries_of(world)
    same({number: after.get(number) for number in before}, before, "what was there before")
    same(world.log.end_index in after, True, "the new entry is there")
    return world.found.end_index


def _entries_of(world: EntryWorld) -> dict[int, Entry]:
    """By their numbers; those that are damaged are not there."""
    log, found = world.log, dict[int, Entry]()
    for number in range(max(0, log.begin_index), log.end_index + 1):
        found |= {entry.index: entry for entry in log.entries(number, 1)}
    return found


def _entry_files() -> Iterator[bytes]:
    for number, name in enumerate(sorted(_member().files)):
        yield bytes([number]) + bytes(_member().files[name]).rstrip(b"\0")


def _units(data: bytes) -> object:
    """In one piece, and unit by unit."""
    chain = UnitChain(4096)
    believed = chain.feed(data[: len(data) - len(data) % 20])
    return believed, chain.count, chain.end


def _units_one_by_one(data: bytes) -> object:
    chain, believed = UnitChain(4096), True
    for at in range(0, len(data) - len(data) % 20, 20):
        believed = believed and chain.feed(data[at : at + 20])
    return believed, chain.count, chain.end


_STORE: Final = "store/"
_LOG_SIZES: Final = (
    "remoting/protocol/record/layout.py: MOST_SIZE",
    "store/model/config.py: MessageStoreConfig.mapped_file_size_commit_log",
)

PARSERS: Final = (
    Parser(
        "stores",
        (
            _STORE + "recovery/opening.py: load_commit_log",
            _STORE + "queues/consume_queue_ext.py: ConsumeQueueExts.load",
            _STORE + "queues/queue_ends.py: _decode",
            _STORE + "read/message_reader.py: MessageReader._scan",
        ),
        _LOG_SIZES,
        _store,
        (StoreError,),
        base_bytes=4 << 20,
        bytes_per_byte=300,
        opens_files=True,
        seeds=_store_files,
    ),
    Parser(
        "stores-from-outside",
        ("tools/mqstore/index_check.py: read_header", "tools/mqstore/verify.py: verify"),
        _LOG_SIZES,
        _offline,
        (OSError,),
        base_bytes=8 << 20,
        bytes_per_byte=300,
        opens_files=True,
        seeds=_store_files,
    ),
    Parser(
        "checkpoint",
        (_STORE + "disk/checkpoint.py: Checkpoint.load",),
        (_STORE + "disk/checkpoint.py: _SIZE",),
        _checkpoint,
        (StoreError,),
        seeds=lambda: [bytes(_stores()[0].files["/s/checkpoint"])],
    ),
    Parser(
        "queue-ends",
        (_STORE + "queues/queue_ends.py: _decode",),
        (),
        _ends,
        bounded_by="the length of the file, which our own store wrote and sealed with a CRC",
        bytes_per_byte=300,
        seeds=_known_ends,
    ),
    Parser(
        "member-states",
        (
            _STORE + "dledger/state_files.py: HardStateFile.load",
            _STORE + "dledger/state_files.py: CommitFile.load",
            _STORE + "dledger/state_files.py: MemberMarker.load",
        ),
        ("remoting/protocol/java_properties.py: MAX_TEXT_CHARACTERS",),
        _states,
        (StoreError,),
        bytes_per_byte=300,
        seeds=_state_seeds,
    ),
    Parser(
        "member-logs",
        (_STORE + "log/entry_recovery.py: recover_entries",),
        ("remoting/protocol/record/entry.py: MAX_ENTRY_SIZE",),
        _entry_log,
        (StoreError,),
        base_bytes=4 << 20,
        bytes_per_byte=300,
        seeds=_entry_files,
    ),
    Parser(
        "units",
        (_STORE + "queues/queue_units.py: UnitChain.feed",),
        (_STORE + "model/config.py: MessageStoreConfig.mapped_file_size_consume_queue",),
        _units,
        twin=_units_one_by_one,
        bytes_per_byte=300,
        seeds=lambda: [
            b"".join(struct.pack(">qiq", 100 * n, 100, n) for n in range(count)) for count in (1, 9)
        ],
    ),
)
