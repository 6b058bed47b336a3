"""Both sides of replication on a network that delays, splits and cuts, without I/O; and against
captured streams."""

from __future__ import annotations

import functools
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import (
    BLANK_SIZE,
    NewRecord,
    encode_record,
    size_and_magic,
)
from aiorocketmq.store.replica import replica_stream
from aiorocketmq.store.replica.replica_stream import MOST_BUFFER_BYTES, REPORT_S, Piece, SlaveSide
from aiorocketmq.store.replica.replication import (
    BATCH_HEAD,
    REPORT,
    LogRange,
    MasterSide,
    ReplicationError,
    ReplicationSettings,
    unsent,
)

from ...stored import received
from ..world import BORN_HOST, open_store, put_ok

FILE_SIZE = 8192
SETTINGS = ReplicationSettings(batch_size=700)


@functools.cache
def sample_log() -> tuple[bytes, tuple[int, ...]]:
    """A commit log of several files and where it could end: behind each record."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        ends = []
        for number in range(60):
            result = put_ok(store, queue_id=number % 3, body=b"x" * (number * 37 % 2000))
            ends.append(result.phy_offset + result.size)
        parts = [
            store.read(at, min(FILE_SIZE, ends[-1] - at)) for at in range(0, ends[-1], FILE_SIZE)
        ]
        store.close()
    assert len(parts) > 3
    return b"".join(part for part in parts if part is not None), tuple(ends)


def records_end(data: bytes | memoryview, base: int = 0) -> int:
    """Where a whole chain of records from the start of ``data`` ends."""
    at = 0
    while at + BLANK_SIZE <= len(data):
        size, _ = size_and_magic(data, at)
        if size <= 0 or at + size > len(data):
            break
        at += size
    return base + at


class World:
    """A master whose log grows, a slave, and what is on the way between them."""

    def __init__(self, config: ReplicationSettings) -> None:
        self.config = config
        self.log, self.ends = sample_log()
        self.end = 0
        self.now = 0.0
        self.slave_log = bytearray()
        self.flushed = 0
        self.connect()

    def connect(self) -> None:
        """A new connection; what was on the way is lost, and the slave syncs before its first
        report."""
        self.down = b""
        self.up = b""
        self.flushed = len(self.slave_log)
        self.master = MasterSide(self.config, self.now)
        self.slave = SlaveSide(len(self.slave_log), FILE_SIZE, self.config, self.now)

    @property
    def range(self) -> LogRange:
        return LogRange(0, self.end, FILE_SIZE)

    def grow(self, records: int) -> None:
        self.end = next((end for end in self.ends if end > self.end), self.end)
        if records > 1:
            self.grow(records - 1)

    def master_sends(self, limit: int) -> None:
        wanted = self.master.wanted(self.range, limit)
        if wanted is None:
            self.down += self.master.heartbeat(self.now) or b""
            return
        offset, size = wanted
        assert 0 < size <= limit
        assert offset // FILE_SIZE == (offset + size - 1) // FILE_SIZE, "a batch lies in one file"
        self.down += b"".join(self.master.batches(self.log[offset : offset + size], self.now))

    def slave_gets(self, size: int) -> None:
        data, self.down = self.down[:size], self.down[size:]
        for piece in received(self.slave, data, self.now):
            assert piece.phy_offset == len(self.slave_log), (
                "it never overwrites and leaves nothing out"
            )
            assert (
                piece.phy_offset // FILE_SIZE
                == (piece.phy_offset + len(piece.data) - 1) // FILE_SIZE
            )
            self.slave_log += piece.data
        self.slave.wrote(len(self.slave_log), self.flushed)

    def slave_flushes(self) -> None:
        self.flushed = len(self.slave_log)
        self.slave.wrote(len(self.slave_log), self.flushed)

    def slave_reports(self) -> None:
        self.up += self.slave.report(self.now) or b""

    def master_gets(self, size: int) -> None:
        data, self.up = self.up[:size], self.up[size:]
        self.master.receive(data, self.range, self.now)

    def check(self) -> None:
        assert bytes(self.slave_log) == self.log[: len(self.slave_log)], (
            "the slave has a prefix of the master's log"
        )
        assert records_end(bytes(self.slave_log)) == len(self.slave_log), "which ends with a record"
        assert self.master.acked <= max(self.master.sent, 0) <= self.end
        assert (
            self.master.acked
            <= self.slave.acked
            <= self.slave.written
            == len(self.slave_log)
            <= self.slave.received
        )
        if self.config.ack_after_flush:
            assert self.slave.acked <= self.slave.flushed <= self.slave.written

    def run_quiet(self) -> None:
        """Nothing is lost any more and all is delivered."""
        for _ in range(10_000):
            before = (len(self.slave_log), self.master.acked, self.slave.acked, self.flushed)
            self.slave_flushes()
            self.slave_reports()
            self.master_gets(10**9)
            self.master_sends(5000)
            self.slave_gets(10**9)
            self.check()
            if before == (len(self.slave_log), self.master.acked, self.slave.acked, self.flushed):
                return
        raise AssertionError("no end")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(1, 5)),
        st.tuples(st.just("master_sends"), st.integers(1, 3000)),
        st.tuples(st.just("slave_gets"), st.integers(1, 2500)),
        st.tuples(st.just("slave_reports"), st.none()),
        st.tuples(st.just("master_gets"), st.integers(1, 20)),
        st.tuples(st.just("slave_flushes"), st.none()),
        st.tuples(st.just("connect"), st.none()),
        st.tuples(st.just("wait"), st.integers(1, 15)),
    ),
    min_size=20,
    max_size=200,
)


@settings(deadline=None, max_examples=150)
@given(STEPS, st.booleans())
def test_whatever_the_network_does_the_slave_has_a_prefix_and_in_the_end_all(
    steps: list[tuple[str, int | None]], ack_after_flush: bool
) -> None:
    world = World(SETTINGS._replace(ack_after_flush=ack_after_flush))
    for name, argument in steps:
        if name == "wait":
            assert argument is not None
            world.now += argument
        elif argument is None:
            getattr(world, name)()
        else:
            getattr(world, name)(argument)
        world.check()
    world.run_quiet()
    assert len(world.slave_log) == world.end == max(world.master.acked, 0)


@functools.cache
def log_of_small_records() -> tuple[bytes, tuple[int, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        results = [put_ok(store, body=b"x" * (number % 50)) for number in range(300)]
        end = store.max_phy_offset
        parts = [store.read(at, min(FILE_SIZE, end - at)) for at in range(0, end, FILE_SIZE)]
        store.close()
    return b"".join(part for part in parts if part is not None), tuple(
        result.phy_offset for result in results
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 9000), max_size=20))
def test_all_records_are_found_however_the_stream_is_cut(steps: list[int]) -> None:
    log, begins = log_of_small_records()
    stream = b"".join(batch(at, log[at : at + 700]) for at in range(0, len(log), 700))
    slave, at, data = SlaveSide(0, FILE_SIZE, SETTINGS, 0.0), 0, b""
    found: list[int] = []
    for step in [*steps, len(stream)]:
        for piece in received(slave, stream[at : at + step], 0.0):
            assert piece.phy_offset == len(data)
            found += records_of(piece)
            data += piece.data
        at += step
    assert data == log
    assert tuple(found) == begins


def plain_record(phy_offset: int, size: int) -> bytes:
    return encode_record(NewRecord(
        "T", 0, bytes(size - 92), b"", queue_offset=0, phy_offset=phy_offset, sys_flag=0,
        born_timestamp=1,
        born_host=BORN_HOST, store_timestamp=2, store_host=BORN_HOST,
    ))  # fmt: skip


def test_a_long_record_gets_a_buffer_that_it_fits_into_for_as_long_as_it_takes() -> None:
    size = 3 * replica_stream.BUFFER_BYTES
    slave = SlaveSide(0, 4 * size, SETTINGS, 0.0)
    record = plain_record(0, size)
    (piece,) = received(slave, batch(0, record), 0.0)
    assert piece.data == record
    assert len(slave.get_buffer()) == MOST_BUFFER_BYTES


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.data())
def test_what_a_socket_did_not_take_is_the_rest_of_a_batch_and_whole_batches(
    sizes: list[int], data: st.DataObject
) -> None:
    parts: list[bytes | memoryview] = []
    for number, size in enumerate(sizes):
        parts += (BATCH_HEAD.pack(number, size), bytes([number]) * size)
    stream = b"".join(parts)
    written = data.draw(st.integers(0, len(stream)))
    rest, not_begun = unsent(parts, written)
    on_the_way = stream[:written] + rest
    left = []
    while len(b"".join(parts)) > len(on_the_way):
        left.append(parts.pop())
        parts.pop()
    assert on_the_way == b"".join(parts), "it ends with a batch"
    assert len(on_the_way) > 0
    assert not_begun == sum(map(len, left))
    assert written == 0 or len(rest) < BATCH_HEAD.size + 50


# -- who starts where


def started(report: int, log: LogRange, **changes: bool) -> MasterSide:
    master = MasterSide(SETTINGS._replace(**changes), 0.0)
    master.receive(REPORT.pack(report), log, 0.0)
    return master


def test_an_empty_slave_gets_everything_or_the_last_file() -> None:
    log = LogRange(8192, 30_000, 8192)
    assert started(0, log).sent == 8192
    assert started(0, log, fetch_from_first_file=False).sent == 24_576
    assert started(0, LogRange(0, 24_576, 8192), fetch_from_first_file=False).sent == 24_576
    assert started(9000, log).sent == 9000


def test_only_the_last_of_several_reports_counts_and_halves_wait_for_the_rest() -> None:
    log = LogRange(0, 30_000, 8192)
    master = started(100, log)
    master.batches(bytes(500), 0.0)
    master.receive(REPORT.pack(200) + REPORT.pack(300) + REPORT.pack(400)[:3], log, 0.0)
    assert (master.acked, master.sent) == (300, 600)
    master.receive(REPORT.pack(400)[3:], log, 0.0)
    assert master.acked == 400


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (30_001, "the slave is ahead"),
        (8191, "it was away for too long"),
        (-1, "reports the offset -1"),
    ],
)
def test_a_slave_that_does_not_go_together_with_the_log_is_refused(
    report: int, problem: str
) -> None:
    with pytest.raises(ReplicationError, match=problem):
        started(report, LogRange(8192, 30_000, 8192))


def test_a_slave_cannot_have_what_it_was_not_sent() -> None:
    log = LogRange(0, 30_000, 8192)
    master = started(100, log)
    with pytest.raises(ReplicationError, match="sent nothing behind 100"):
        master.receive(REPORT.pack(101), log, 0.0)


def test_a_slave_whose_next_file_expires_meanwhile_is_told_so() -> None:
    master = started(100, LogRange(0, 30_000, 8192))
    with pytest.raises(ReplicationError, match="empty its store"):
        master.wanted(LogRange(8192, 30_000, 8192), 1000)


def test_heartbeats_and_silence() -> None:
    log = LogRange(0, 30_000, 8192)
    master = started(100, log)
    assert master.heartbeat(5.0) is None
    assert master.heartbeat(5.1) == BATCH_HEAD.pack(100, 0)
    assert master.heartbeat(5.2) is None
    assert not master.is_silent(20.0)
    assert master.is_silent(20.1)
    slave = SlaveSide(100, FILE_SIZE, SETTINGS, 0.0)
    assert slave.report(0.0) == REPORT.pack(100)
    assert slave.report(4.9) is None
    assert slave.report(5.0) == REPORT.pack(100)
    assert received(slave, BATCH_HEAD.pack(100, 0), 19.0) == []
    assert not slave.is_silent(39.0)
    assert slave.is_silent(39.1)


# -- what a slave refuses


def test_while_more_has_come_than_is_taken_at_once_reports_wait_some_milliseconds() -> None:
    size, data = 4096, bytearray(2 * MOST_BUFFER_BYTES)
    for at in range(0, len(data), size):
        data[at : at + size] = plain_record(at, size)
    slave = SlaveSide(0, 2 * len(data), SETTINGS, 0.0)
    assert slave.report(0.0) == REPORT.pack(0)
    left = batch(0, bytes(data))

    def come(now: float) -> bytes | None:
        nonlocal left
        room = slave.get_buffer()
        part, left = left[: len(room)], left[len(room) :]
        room[: len(part)] = part
        for piece in slave.buffer_updated(len(part), now):
            slave.wrote(piece.phy_offset + len(piece.data), 0)
        return slave.report(now)

    assert come(0.001) is None
    assert slave.late
    assert slave.report(REPORT_S) == REPORT.pack(slave.written)
    assert not slave.late
    assert come(REPORT_S + 0.001) is None
    assert come(REPORT_S + 0.002) == REPORT.pack(len(data)), "no more has come"
    assert not left


def batch(offset: int, data: bytes) -> bytes:
    return BATCH_HEAD.pack(offset, len(data)) + data


def test_a_batch_that_does_not_carry_on_is_refused() -> None:
    log, ends = sample_log()
    for offset in (ends[0] - 1, ends[0] + 1, 0):
        slave = SlaveSide(ends[0], FILE_SIZE, SETTINGS, 0.0)
        with pytest.raises(ReplicationError, match="the master goes on at"):
            received(slave, batch(offset, log[offset : ends[1]]), 0.0)


@settings(deadline=None)
@given(st.data())
def test_what_is_damaged_is_handed_on_as_it_came_and_costs_no_neighbour(
    data: st.DataObject,
) -> None:
    """However the stream is cut, down to single bytes: any byte of a record, or all of one."""
    whole, begins = log_of_small_records()
    number = data.draw(st.integers(0, 40))
    begin, end = begins[number], begins[number + 1]
    log = bytearray(whole[: begins[60]])
    if data.draw(st.booleans()):
        log[begin + data.draw(st.integers(0, end - begin - 1))] ^= data.draw(st.integers(1, 255))
    else:
        log[begin:end] = data.draw(
            st.sampled_from([bytes(end - begin), b"\xda\xa3\x20\xa7" * (end - begin)])
        )[: end - begin]
    slave, at = SlaveSide(0, FILE_SIZE, SETTINGS, 0.0), 0
    came, starts = b"", []
    step = data.draw(st.sampled_from([1, 50, 700, 8000]))
    while at < len(log):
        part = bytes(log[at : min(at + step, at - at % FILE_SIZE + FILE_SIZE)])
        for piece in received(slave, batch(at, part), 0.0):
            assert piece.phy_offset == len(came)
            starts += records_of(piece)
            came += piece.data
        at += len(part)
    assert came == log
    assert set(begins[:60]) - set(starts) <= {begin}
    assert set(starts) <= set(begins)


@pytest.mark.parametrize("step", [1, 50, 8000])
@pytest.mark.parametrize("bit", [27, 32])
def test_a_damaged_size_is_seen_by_the_other_lengths(bit: int, step: int) -> None:
    """Be it one that leads out of the file, or one whose end has not come yet."""
    whole, begins = log_of_small_records()
    log = bytearray(whole[: begins[20]])
    log[2] ^= bit
    slave, came = SlaveSide(0, FILE_SIZE, SETTINGS, 0.0), b""
    for at in range(0, len(log), step):
        for piece in received(slave, batch(at, bytes(log[at : at + step])), 0.0):
            came += piece.data
    assert came == log


def test_what_is_damaged_at_the_end_waits_for_a_record() -> None:
    """So a connection that is cut there goes on in front of it."""
    log, ends = sample_log()
    slave = SlaveSide(ends[0], FILE_SIZE, SETTINGS, 0.0)
    assert drip(slave, ends[0], bytes(ends[1] - ends[0])) == []
    assert slave.written == ends[0]
    pieces = drip(slave, ends[1], log[ends[1] : ends[2]])
    assert [(piece.phy_offset, len(records_of(piece))) for piece in pieces] == [
        (ends[0], 0),
        (ends[1], 1),
    ]


def records_of(piece: Piece) -> list[int]:
    """Where they lie."""
    return [] if piece.records is None else piece.records.phy_offsets.tolist()


def drip(slave: SlaveSide, offset: int, data: bytes) -> list[Piece]:
    """Byte by byte."""
    pieces: list[Piece] = []
    for number in range(len(data)):
        pieces += received(slave, batch(offset + number, data[number : number + 1]), 0.0)
    return pieces


def test_a_blank_must_fill_its_file() -> None:
    log, ends = sample_log()
    blank_at = max(end for end in ends if end < FILE_SIZE)
    slave = SlaveSide(blank_at, FILE_SIZE, SETTINGS, 0.0)
    assert received(slave, batch(blank_at, log[blank_at:FILE_SIZE]), 0.0) == [
        Piece(blank_at, log[blank_at:FILE_SIZE])
    ]
    for wrong in (
        log[blank_at : blank_at + 3] + b"\x01" + log[blank_at + 4 : FILE_SIZE],
        bytes(FILE_SIZE - blank_at),
    ):
        slave = SlaveSide(blank_at, FILE_SIZE, SETTINGS, 0.0)
        assert received(slave, batch(blank_at, wrong), 0.0) == [
            Piece(blank_at, wrong)
        ]  # damaged, to the end of the file


@pytest.mark.parametrize("split", [1, 7, 700, FILE_SIZE])
@pytest.mark.parametrize("bit", range(32))
def test_a_blank_of_any_damaged_size_goes_to_the_end_of_its_file(bit: int, split: int) -> None:
    log, ends = sample_log()
    blank_at = max(end for end in ends if end < FILE_SIZE)
    (size,) = struct.unpack_from(">I", log, blank_at)
    leftover = plain_record(
        blank_at + BLANK_SIZE, FILE_SIZE - blank_at - BLANK_SIZE
    )  # of a log that was cut there once
    wrong = (
        struct.pack(">I", size ^ 1 << bit) + log[blank_at + 4 : blank_at + BLANK_SIZE] + leftover
    )
    behind = log[FILE_SIZE : max(ends)]
    slave = SlaveSide(blank_at, FILE_SIZE, SETTINGS, 0.0)
    stream = batch(blank_at, wrong) + b"".join(
        batch(FILE_SIZE + at, behind[at : at + 5000]) for at in range(0, len(behind), 5000)
    )
    pieces = [
        piece
        for at in range(0, len(stream), split)
        for piece in received(slave, stream[at : at + split], 0.0)
    ]
    assert pieces[0] == Piece(blank_at, wrong)
    assert b"".join(bytes(piece.data) for piece in pieces[1:]) == behind
    assert sum(len(records_of(piece)) for piece in pieces[1:]) == sum(
        end > FILE_SIZE for end in ends
    )


def test_a_damaged_blank_in_front_of_a_damaged_record_is_not_waited_for_long() -> None:
    log, ends = sample_log()
    blank_at = max(end for end in ends if end < FILE_SIZE)
    following = min(end for end in ends if end > FILE_SIZE)
    wrong = bytes([log[blank_at] ^ 1]) + log[blank_at + 1 : FILE_SIZE]  # 16 MiB more
    assert log[FILE_SIZE + 4]
    behind = log[FILE_SIZE : FILE_SIZE + 4] + b"\0" + log[FILE_SIZE + 5 : FILE_SIZE + 4000]
    slave = SlaveSide(blank_at, FILE_SIZE, SETTINGS, 0.0)
    pieces = received(slave, batch(blank_at, wrong) + batch(FILE_SIZE, behind), 0.0)
    assert [(piece.phy_offset, len(records_of(piece)) > 0) for piece in pieces] == [
        (blank_at, False),
        (FILE_SIZE, False),
        (following, True),
    ]


def test_a_master_with_files_of_another_size_is_refused() -> None:
    log, ends = sample_log()
    blank_at = max(end for end in ends if end < FILE_SIZE)
    for size in (FILE_SIZE // 2, 2 * FILE_SIZE):
        slave = SlaveSide(blank_at, 4 * FILE_SIZE if size < FILE_SIZE else 6000, SETTINGS, 0.0)
        stream = batch(blank_at, log[blank_at:FILE_SIZE]) + batch(
            FILE_SIZE, log[FILE_SIZE : FILE_SIZE + 3000]
        )
        with pytest.raises(
            ReplicationError, match="mappedFileSizeCommitLog must be that of the master"
        ):
            received(slave, stream, 0.0)


def test_an_empty_slave_may_begin_with_any_file_but_not_inside_of_one() -> None:
    log, _ = sample_log()
    slave = SlaveSide(0, FILE_SIZE, SETTINGS, 0.0)
    assert received(slave, BATCH_HEAD.pack(3 * FILE_SIZE, 0), 0.0) == []
    pieces = received(slave, batch(FILE_SIZE, log[FILE_SIZE : FILE_SIZE + 3000]), 0.0)
    assert [piece.phy_offset for piece in pieces] == [FILE_SIZE]
    assert records_end(pieces[0].data) == len(pieces[0].data)
    beyond = (
        2**63 - 2**63 % FILE_SIZE - FILE_SIZE
    )  # a file there would end behind the largest offset
    for begin in (FILE_SIZE // 2, -FILE_SIZE, beyond):
        with pytest.raises(
            ReplicationError, match="mappedFileSizeCommitLog must be that of the master"
        ):
            received(SlaveSide(0, FILE_SIZE, SETTINGS, 0.0), batch(begin, b"x"), 0.0)


@pytest.mark.parametrize("size", [-1, FILE_SIZE + 1])
def test_a_batch_has_a_believable_size(size: int) -> None:
    with pytest.raises(ReplicationError, match="announces a batch"):
        received(SlaveSide(0, FILE_SIZE, SETTINGS, 0.0), BATCH_HEAD.pack(0, size), 0.0)
