"""What members of a cluster send each other: both sides of the log's stream, and Raft."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from aiorocketmq.broker.raft.group import read_peers
from aiorocketmq.remoting.protocol.bodies.codec import BodyError
from aiorocketmq.remoting.protocol.bodies.dledger import (
    REQUEST_BODIES,
    RESPONSE_BODIES,
    DledgerBody,
    PushRequest,
    decode_dledger,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.bodies.stored_entries import (
    decode_push,
    encode_before_bytes,
    side_by_side,
)
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.store.model.errors import StoreConfigError
from aiorocketmq.store.raft.entry_log import EntryLogError
from aiorocketmq.store.replica.repair import problem_of_records
from aiorocketmq.store.replica.replica_stream import SlaveSide
from aiorocketmq.store.replica.replication import (
    BATCH_HEAD,
    REPORT,
    LogRange,
    MasterSide,
    ReplicationError,
    ReplicationSettings,
)
from aiorocketmq.store.replica.replication_secret import (
    MAGIC,
    MasterHandshake,
    SlaveHandshake,
    says_hello,
)

from ..store.log.entry_world import EntryWorld, made
from ..stored import received
from .parsers import Parser, same, text_of
from .samples import sample_of

_FILE: Final = 4096
_SECRET: Final = b"a secret of many bytes"
_NONCE: Final = bytes(range(16))
_LOG: Final = LogRange(0, 5000, _FILE)
_KINDS: Final = (*REQUEST_BODIES.values(), *RESPONSE_BODIES.values())


def _slave(data: bytes, step: int) -> object:
    """All that reached the log, whatever the pieces in which it came; of a stream that was refused
    only that: how much was written before depends on the pieces."""
    slave, found = SlaveSide(0, _FILE, ReplicationSettings(), 0.0), b""
    for at in range(0, len(data), step):
        for piece in received(slave, data[at : at + step], 0.0):
            same(piece.phy_offset, slave.written, "where the next piece goes")
            found += bytes(piece.data)
            slave.wrote(piece.phy_offset + len(piece.data), 0)
    return found, slave.written, slave.received


def _stream() -> Iterator[bytes]:
    log = b""
    for number, size in enumerate((10, 300, 0)):
        log += encode_record(
            NewRecord("T", 0, b"b" * size, b"", number, len(log), 0, 1, bytes(8), 5, bytes(8))
        )
    yield BATCH_HEAD.pack(0, len(log)) + log
    yield (
        BATCH_HEAD.pack(0, 100) + log[:100] + BATCH_HEAD.pack(100, 0)
        + BATCH_HEAD.pack(100, len(log) - 100) + log[100:]
    )  # fmt: skip


def _master(data: bytes, step: int) -> object:
    master = MasterSide(ReplicationSettings(), 0.0)
    for at in range(0, len(data), step):
        master.receive(data[at : at + step], _LOG, 0.0)
        master.wanted(_LOG, 1000)
    return None


def _master_secret(data: bytes) -> object:
    if not says_hello(data):
        return None
    master = MasterHandshake(_SECRET, _NONCE)
    for at in range(0, len(data), 20):
        master.receive(data[at : at + 20])
    assert not master.done, "nobody has proved anything"
    return master.rest


def _slave_secret(data: bytes) -> object:
    slave = SlaveHandshake(_SECRET, _NONCE)
    for at in range(0, len(data), 20):
        slave.receive(data[at : at + 20])
    return slave.done


def _greetings() -> Iterator[bytes]:
    yield MAGIC + _NONCE
    yield MAGIC + _NONCE[:3]


def _answers() -> Iterator[bytes]:
    master = MasterHandshake(_SECRET, bytes(16))
    slave = SlaveHandshake(_SECRET, _NONCE)
    challenge = master.receive(slave.hello)
    yield challenge + master.receive(slave.receive(challenge))
    yield challenge


def _dledger(data: bytes) -> object:
    """The first byte chooses the kind; what was read is written and read again."""
    kind: type[DledgerBody] = _KINDS[data[0] % len(_KINDS)] if data else _KINDS[0]
    found = decode_dledger(kind, data[1:])
    same(decode_dledger(kind, encode_dledger(found)), found, "written and read again")
    return found


def _dledger_bodies() -> Iterator[bytes]:
    for number, kind in enumerate(_KINDS):
        yield bytes([number]) + encode_dledger(sample_of(kind))


_DISK: Final = EntryWorld().disk


def _entries(data: bytes) -> object:
    """Into the log of a follower: what was stored is what was sent, and nothing else."""
    request = decode_push(data)
    entries = request.batch_entry
    world = EntryWorld(_DISK.copy())
    try:
        if entries:
            world.log.append(entries)
    except EntryLogError:
        kept = world.log.end_index + 1
    else:
        kept = len(entries)
    same(world.all(), list(entries[:kept]), "entries in the log")
    return kept


def _pushes() -> Iterator[bytes]:
    for bodies in ([b"a"], [b"a", b"b" * 300, b""]):
        push = PushRequest(term=1, leader_id="n1", batch_entry=made(bodies))
        yield encode_dledger(push)
        yield encode_before_bytes(push) + side_by_side(push.batch_entry, _FILE)[0]


def _repair(data: bytes) -> object:
    return problem_of_records(data, 0, _FILE)


def _peers(data: bytes) -> object:
    return read_peers(text_of(data))


_REPLICA: Final = "store/replica/"
PARSERS: Final = (
    Parser(
        "stream-at-a-slave",
        (_REPLICA + "replica_stream.py: SlaveSide.buffer_updated",),
        (
            _REPLICA + "replica_stream.py: MOST_BUFFER_BYTES",
            _REPLICA + "replica_stream.py: _LONGEST_RECORD",
        ),
        partial(_slave, step=1 << 20),
        (ReplicationError,),
        twin=partial(_slave, step=5),
        bytes_per_byte=300,
        base_bytes=3 << 20,
        seeds=_stream,
    ),
    Parser(
        "reports-at-a-master",
        (_REPLICA + "replication.py: MasterSide.receive",),
        (_REPLICA + "replication.py: REPORT",),
        partial(_master, step=3),
        (ReplicationError,),
        seeds=lambda: [REPORT.pack(0) + REPORT.pack(0), REPORT.pack(4096)],
    ),
    Parser(
        "secret-at-a-master",
        (
            _REPLICA + "replication_secret.py: MasterHandshake.receive",
            _REPLICA + "replication_secret.py: says_hello",
        ),
        (_REPLICA + "replication_secret.py: NONCE_BYTES",),
        _master_secret,
        (ReplicationError,),
        seeds=_greetings,
    ),
    Parser(
        "secret-at-a-slave",
        (_REPLICA + "replication_secret.py: SlaveHandshake.receive",),
        (_REPLICA + "replication_secret.py: NONCE_BYTES",),
        _slave_secret,
        (ReplicationError,),
        seeds=_answers,
    ),
    Parser(
        "dledger-bodies",
        ("remoting/protocol/bodies/dledger.py: decode_dledger",),
        ("remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES",),
        _dledger,
        (BodyError,),
        seeds=_dledger_bodies,
    ),
    Parser(
        "dledger-entries",
        (
            "store/log/entry_log.py: DledgerLog.append",
            "remoting/protocol/bodies/stored_entries.py: decode_push",
        ),
        ("remoting/protocol/record/entry.py: MAX_ENTRY_SIZE",),
        _entries,
        (BodyError,),
        bytes_per_byte=600,
        seeds=_pushes,
    ),
    Parser(
        "records-of-a-repair",
        (_REPLICA + "repair.py: problem_of_records",),
        ("remoting/protocol/record/layout.py: MOST_SIZE",),
        _repair,
        seeds=lambda: [stream[BATCH_HEAD.size :] for stream in _stream()],
    ),
    Parser(
        "members",
        ("broker/raft/group.py: read_peers",),
        ("broker/raft/group.py: MAX_MEMBERS",),
        _peers,
        (StoreConfigError,),
        seeds=lambda: [b"n0-10.0.0.1:40911;n1-[::1]:40911; n2-host:1"],
    ),
)
