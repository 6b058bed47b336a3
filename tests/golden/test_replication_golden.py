"""The captured stream between a master and a slave of the original: fed to our slave, and asked of
our master."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.replica.replica_stream import SlaveSide
from aiorocketmq.store.replica.replication import (
    BATCH_HEAD,
    LogRange,
    MasterSide,
    ReplicationSettings,
)
from tests.stored import received

from ..golden_files import golden_lines, unpack_golden
from ..store.world import open_store

FILE_SIZE = 65536
AS_THE_ORIGINAL = ReplicationSettings(fetch_from_first_file=False)


class Segment(NamedTuple):
    """What one side sent at once."""

    to_slave: bool
    data: bytes


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    return [
        Segment(row["dir"] == "s2c", bytes.fromhex(row["hex"])) for row in golden_lines("json-ha")
    ]


def extract(name: str, folder: Path) -> Path:
    unpack_golden(f"store-clean-{name}", folder)
    return folder / name


def open_slave(root: Path) -> MessageStore:
    return open_store(
        root,
        store_host=pack_host("127.0.0.1", 27911),
        broker_role=BrokerRole.SLAVE,
        mapped_file_size_commit_log=FILE_SIZE,
        mapped_file_size_consume_queue=2000,
        max_hash_slot_num=100,
        max_index_num=400,
    )


def files_below(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("step", [1 << 20, 1000])
def test_our_slave_ends_with_the_bytes_of_the_captured_one(
    segments: list[Segment], tmp_path: Path, step: int
) -> None:
    """Its commit log and its consume queues, however the stream is cut."""
    store = open_slave(tmp_path / "ours")
    side = SlaveSide(0, FILE_SIZE, AS_THE_ORIGINAL, 0.0)
    stream = b"".join(segment.data for segment in segments if segment.to_slave)
    for at in range(0, len(stream), step):
        for piece in received(side, stream[at : at + step], 0.0):
            store.replica.append(*piece)
    assert store.max_phy_offset == 255_702
    last = store.replica.last_record()
    store.close()
    captured = extract("slave", tmp_path)
    assert files_below(tmp_path / "ours" / "commitlog") == files_below(captured / "commitlog")
    queues = files_below(captured / "consumequeue")
    assert files_below(tmp_path / "ours" / "consumequeue") == queues
    assert len(queues) > 20
    assert last is not None
    assert last[0] + len(last[1]) == 255_702


def test_our_slave_goes_on_after_a_restart(segments: list[Segment], tmp_path: Path) -> None:
    """From the end of its last whole record, as a new connection does; the tables of what it had
    are not made twice."""
    stream = b"".join(segment.data for segment in segments if segment.to_slave)
    body = b"".join(data for _, data in batches_of(stream))
    end = 0
    for _ in range(7):
        store = open_slave(tmp_path / "ours")
        assert store.max_phy_offset == end
        side = SlaveSide(end, FILE_SIZE, AS_THE_ORIGINAL, 0.0)
        for offset in range(end, min(end + 45_001, len(body)), 5000):
            part = body[offset : offset + 5000]
            for piece in received(side, BATCH_HEAD.pack(offset, len(part)) + part, 0.0):
                store.replica.append(*piece)
        end = store.max_phy_offset
        store.close()
    captured = extract("slave", tmp_path)
    assert files_below(tmp_path / "ours" / "commitlog") == files_below(captured / "commitlog")
    assert files_below(tmp_path / "ours" / "consumequeue") == files_below(captured / "consumequeue")


def batches_of(stream: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(stream):
        offset, size = BATCH_HEAD.unpack_from(stream, at)
        at += BATCH_HEAD.size
        found.append((offset, stream[at : at + size]))
        at += size
    assert at == len(stream)
    return found


def test_our_master_answers_the_captured_reports_with_the_captured_stream(
    segments: list[Segment], tmp_path: Path
) -> None:
    """The log grows as the capture shows it; where batches are cut and when heartbeats come is not
    compared."""
    root = extract("master", tmp_path)
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    side = MasterSide(AS_THE_ORIGINAL, 0.0)
    theirs, ours, end = b"", b"", 0
    for segment in segments:
        if segment.to_slave:
            theirs += segment.data
            end = end_of(theirs)
        else:
            side.receive(segment.data, LogRange(0, end, FILE_SIZE), 0.0)
        while (wanted := side.wanted(LogRange(0, end, FILE_SIZE), 1 << 20)) is not None:
            offset, size = wanted
            ours += b"".join(side.batches(log[offset : offset + size], 0.0))
    mine, captured = (
        [batch for batch in batches_of(stream) if batch[1]] for stream in (ours, theirs)
    )
    assert side.acked == side.sent == end == 255_702
    for batches in (mine, captured):
        position = 0
        for offset, data in batches:
            assert offset == position
            assert len(data) <= 32_768
            assert offset // FILE_SIZE == (offset + len(data) - 1) // FILE_SIZE
            position += len(data)
    assert b"".join(data for _, data in mine) == b"".join(data for _, data in captured)


def end_of(stream: bytes) -> int:
    """Up to where the bytes sent so far bring the log."""
    at = end = 0
    while at + BATCH_HEAD.size <= len(stream):
        offset, size = BATCH_HEAD.unpack_from(stream, at)
        at += BATCH_HEAD.size
        end = offset + min(size, len(stream) - at)
        at += size
    return end


def test_a_slave_of_the_original_that_starts_with_the_last_file_of_a_full_log(
    tmp_path: Path,
) -> None:
    root = extract("master", tmp_path)
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    store = open_slave(tmp_path / "ours")
    master = MasterSide(AS_THE_ORIGINAL, 0.0)
    slave = SlaveSide(0, FILE_SIZE, AS_THE_ORIGINAL, 0.0)
    ends = LogRange(0, 255_702, FILE_SIZE)
    report = slave.report(0.0)
    assert report is not None
    master.receive(report, ends, 0.0)
    while (wanted := master.wanted(ends, 10_000)) is not None:
        for piece in received(
            slave, b"".join(master.batches(log[wanted[0] : sum(wanted)], 0.0)), 0.0
        ):
            store.replica.append(*piece)
    assert (store.min_phy_offset, store.max_phy_offset) == (3 * FILE_SIZE, 255_702)
    assert [path.name for path in sorted((tmp_path / "ours" / "commitlog").iterdir())] == [
        f"{3 * FILE_SIZE:020d}"
    ]
    store.close()
    store = open_slave(tmp_path / "ours")
    assert (store.min_phy_offset, store.max_phy_offset) == (3 * FILE_SIZE, 255_702)
    store.close()
