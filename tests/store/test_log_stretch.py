"""Many records decoded at once are the same records, and recovery by them makes the same files."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.index_keys import only_key
from aiorocketmq.remoting.protocol.message import pack_host
from aiorocketmq.remoting.protocol.sys_flag import MessageSysFlag
from aiorocketmq.store import log_stretch, record_chain
from aiorocketmq.store.consume_queue import CQ_UNIT
from aiorocketmq.store.log_scanner import DispatchRequest, LogScanner
from aiorocketmq.store.log_stretch import Stretch, StretchReader, TopicNames
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.record_chain import FEW

from .world import BORN_HOST, NOW, crash, folder_contents, open_store, put_ok

pytest.importorskip("numpy")

V6_HOST = pack_host("2001:db8::1", 40000)
QUEUE_OFFSET = struct.Struct(">q")
QUEUE_OFFSET_AT = 20
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 1000,
    "max_index_num": 400,
}

PROPERTIES = st.sampled_from(
    [
        b"",
        b"UNIQ_KEY\x01%032d",
        b"UNIQ_KEY\x01%032d\x02TAGS\x01TagA",
        b"UNIQ_KEY\x01%032d\x02TAGS\x01TagB\x02",
        b"UNIQ_KEY\x01%032d\x02KEYS\x01a b c\x02TAGS\x01TagA",
        b"TAGS\x01TagC\x02UNIQ_KEY\x01%032d",
        b"UNIQ_KEY\x01\x02TAGS\x01TagA",
        b"UNIQ_KEY\x01%032d\x02UNIQ_KEY\x01other\x02TAGS\x01\x02TAGS\x01x",
        b"UNIQ_KE\x01%032d\x02TAGS\x01TagA",
    ]
)
FLAGS = st.sampled_from([0] * 12 + [MessageSysFlag.TRANSACTION_PREPARED, MessageSysFlag.TRANSACTION_ROLLBACK])
RUNS = st.lists(
    st.tuples(
        st.integers(1, 40),  # how many
        st.sampled_from(["T", "T", "Other", "SCHEDULE_TOPIC_XXXX", "Täglich"]),
        st.integers(0, 1),  # queue
        st.sampled_from([0, 1, 100, 3000]),  # bytes of body
        PROPERTIES,
        FLAGS,
        st.sampled_from([BORN_HOST, BORN_HOST, BORN_HOST, V6_HOST]),
    ),
    min_size=1,
    max_size=8,
)


def fill(store: MessageStore, runs: list[tuple[Any, ...]]) -> None:
    number = 0
    for count, topic, queue_id, size, properties, flag, host in runs:
        for _ in range(count):
            own = properties % number if b"%" in properties else properties
            body = random.Random(number).randbytes(size)
            put_ok(store, topic, queue_id, body, properties=own, sys_flag=flag, born_host=host, store_timestamp=NOW + number)
            number += 1


def records_of(store: MessageStore) -> tuple[list[DispatchRequest], int, list[tuple[int, int]]]:
    scanner = LogScanner(store._log)
    return list(scanner.scan(0)), scanner.end, scanner.damaged


def flip(root: Path, place: int) -> None:
    """One bit somewhere in the log."""
    paths = sorted((root / "commitlog").iterdir())
    path = paths[place % len(paths)]
    data = bytearray(path.read_bytes())
    data[place * 7919 % len(data)] ^= 1 << place % 8
    path.write_bytes(data)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS, flips=st.lists(st.integers(0, 1 << 30), max_size=2), few=st.sampled_from([2, 8, FEW]))
def test_the_same_records_and_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[tuple[Any, ...]], flips: list[int], few: int
) -> None:
    shutil.rmtree(tmp_path)
    store = open_store(tmp_path / "a", **SIZES)
    fill(store, runs)
    crash(store)
    for place in flips:
        flip(tmp_path / "a", place)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    stores = []
    found = []
    for name, numpy in (("a", vars(log_stretch)["numpy"]), ("b", None)):
        with monkeypatch.context() as patch:
            patch.setattr(log_stretch, "numpy", numpy)
            patch.setattr(record_chain, "FEW", few)
            for derived in ("consumequeue", "index"):
                shutil.rmtree(tmp_path / name / derived, ignore_errors=True)
            store = open_store(tmp_path / name, **SIZES)
            stores.append(store)
            found.append(records_of(store))
            assert store.recovery is not None
            store.close()
    assert found[0] == found[1]
    for each in stores:
        assert each.recovery is not None
        assert (each.recovery.records, each.recovery.end) == (len(found[0][0]), found[0][1])
    contents = [folder_contents(tmp_path / name) for name in "ab"]
    derived = [
        {path: data for path, data in each.items() if path.startswith(("consumequeue", "commitlog"))} for each in contents
    ]
    assert derived[0] == derived[1]
    index = [[data for path, data in each.items() if path.startswith("index")] for each in contents]
    assert index[0] == index[1]


def test_usual_records_come_in_stretches_and_each_is_followed_by_one_record(tmp_path: Path) -> None:
    store = open_store(tmp_path, **SIZES)
    fill(store, [(300, "T", 0, 100, b"UNIQ_KEY\x01%032d\x02TAGS\x01TagA", 0, BORN_HOST)])
    pieces = list(LogScanner(store._log).pieces(0))
    store.close()
    stretches = [piece for piece in pieces if isinstance(piece, Stretch)]
    assert sum(map(len, stretches)) > 290
    for number, piece in enumerate(pieces):
        if isinstance(piece, Stretch):
            assert isinstance(pieces[number + 1], DispatchRequest)
            assert [bytes(key) for key in piece.unique_keys] == [only_key(own) for own in piece.properties]
            assert piece.request(3) == list(piece.requests())[3]


def test_damage_anywhere_in_one_of_many_alike_is_never_believed(tmp_path: Path) -> None:
    """What is read at once is what is read one by one, up to the damage at most; no CRC is looked at, as on a slave."""
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    fill(store, [(2 * FEW, "T", 0, 100, b"UNIQ_KEY\x01%032d\x02TAGS\x01TagA", 0, BORN_HOST)])
    data = store.read(0, store.max_phy_offset)
    assert data is not None
    size = len(data) // (2 * FEW)
    scanner, reader = LogScanner(store._log, check_crc=False), StretchReader(TopicNames(), check_crc=False)
    whole = reader.read(data, 0)
    assert whole is not None
    assert list(whole.requests()) == list(scanner.records(data, 0))
    assert len(whole) == 2 * FEW
    bad = 3 * FEW // 2
    for place in range(bad * size, (bad + 1) * size):
        for bit in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[place] ^= bit
            expected = list(scanner.records(bytes(damaged), 0))
            for starts in (None, range(0, len(data), size), list(range(0, len(data), size))):
                if starts is not None and place - bad * size in {*range(8), *range(28, 36)}:
                    continue  # what the chain of records has proved
                stretch = reader.read(bytes(damaged), 0, starts)
                found = [] if stretch is None else list(stretch.requests())
                assert found == expected[: len(found)], place - bad * size
                assert len(found) >= min(len(expected), bad)
    store.close()


@pytest.mark.parametrize("queue_id", [3, 40_000, 70_000])
def test_records_are_grouped_by_topic_and_queue(tmp_path: Path, queue_id: int) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    queues = [("One", 0), ("Two", 0), ("One", queue_id), ("Two", 2), ("Two", 0)]
    fill(store, [(1, *queues[number % 5], 50, b"", 0, BORN_HOST) for number in range(200)])
    data = store.read(0, store.max_phy_offset)
    assert data is not None
    stretch = StretchReader(TopicNames()).read(data, 0)
    assert stretch is not None
    found = {(run.topic, run.queue_id): (run.numbers.tolist(), run.begin, run.without_gap) for run in stretch.by_queue}
    expected = {key: [number for number in range(200) if queues[number % 5] == key] for key in queues}
    assert {key: numbers for key, (numbers, _, _) in found.items()} == expected
    assert all(without_gap for _, _, without_gap in found.values())
    units = stretch.units()
    for numbers, begin, _ in found.values():
        for at, number in enumerate(numbers, begin):
            phy_offset, size, code = CQ_UNIT.unpack_from(units, at * CQ_UNIT.size)
            assert (phy_offset, size, code) == (stretch.phy_offsets[number], stretch.sizes[number], 0)
    store.close()


@pytest.mark.parametrize("number", [0, 2, 3, 100, 196, 197, 199])
def test_a_queue_offset_that_is_left_out_is_a_gap_of_its_queue_alone(tmp_path: Path, number: int) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    fill(store, [(1, "T", number % 3, 50, b"", 0, BORN_HOST) for number in range(200)])
    data = bytearray(store.read(0, store.max_phy_offset) or b"")
    store.close()
    size = len(data) // 200
    for behind in range(number, 200, 3):  # from there on the queue goes on with the number after the next
        QUEUE_OFFSET.pack_into(data, behind * size + QUEUE_OFFSET_AT, behind // 3 + 1)
    stretch = StretchReader(TopicNames()).read(bytes(data), 0)
    assert stretch is not None
    gaps = {run.queue_id for run in stretch.by_queue if not run.without_gap}
    assert gaps == (set() if number < 3 else {number % 3})


def test_two_kinds_of_hosts_in_turn_are_read_one_by_one(tmp_path: Path) -> None:
    store = open_store(tmp_path, **SIZES)
    fill(store, [(1, "T", 0, 10, b"", 0, host) for host in [BORN_HOST, V6_HOST] * 50])
    pieces = list(LogScanner(store._log).pieces(0))
    store.close()
    assert len(pieces) == 100
    assert all(isinstance(piece, DispatchRequest) for piece in pieces)


def test_a_record_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=16 << 20)
    sizes = [100, 3 << 20, 100, 4 << 20, 100]
    for size in sizes:
        put_ok(store, body=bytes(size))
    assert [record.size > 1 << 20 for record in LogScanner(store._log).scan(0)] == [size > 1 << 20 for size in sizes]
    store.close()
