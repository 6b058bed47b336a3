"""A store that was stopped in order, as a broker of the original finds it: what it loads and how
far it recovers, by its own rules (commitlog.md §2, §10, §11), which read nothing of ours."""

from __future__ import annotations

import itertools
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest

from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.store.message_store import MessageStore

from ..world import config_of, open_store, put_ok

LOG_FILE, QUEUE_FILE = 8192, 200
QUEUES = [("T", 0), ("T", 1), ("U", 0), ("SELF_TEST_TOPIC", 1)]
OURS = {"queueends"}
SEQUENCE = {"UNIQ_KEY": "0A", "SEND_SEQUENCE": "#abc:1:7:1700000000000", "TAGS": "a", "KEYS": "k"}


class JavaStart(NamedTuple):
    """What the original has come to when it begins to serve."""

    end: int
    """Of the commit log; what lies behind is written over."""
    next_offsets: dict[tuple[str, int], int]
    dispatched: int
    """Where it goes on to fill queues and index."""


def start_java(root: Path) -> JavaStart:
    assert not (root / "abort").exists()
    log = files_of(root / "commitlog", LOG_FILE)
    queues = {
        (folder.parent.name, int(folder.name)): files_of(folder, QUEUE_FILE)
        for folder in (root / "consumequeue").glob("*/*")
    }
    for path in (root / "index").glob("*"):
        config = config_of(root)
        assert path.stat().st_size == 40 + 4 * config.max_hash_slot_num + 20 * config.max_index_num
    assert (root / "checkpoint").stat().st_size == 4096
    numbers, ends = {}, {}
    for queue, files in queues.items():
        units = [unit for file in sorted(files) for unit in units_of(files[file])]
        numbers[queue] = min(files) // 20 + len(units)
        ends[queue] = max((offset + size for offset, size in units), default=0)
    return JavaStart(end_of(log), numbers, max(ends.values(), default=0))


def files_of(folder: Path, length: int) -> dict[int, bytes]:
    """Any other file in it, and any other length, refuses to start."""
    files = {int(path.name): path.read_bytes() for path in folder.iterdir()}
    assert {len(data) for data in files.values()} <= {length}
    assert sorted(files) == list(range(min(files), min(files) + length * len(files), length))
    return files


def units_of(data: bytes) -> list[tuple[int, int]]:
    units = [(offset, size) for offset, size, _ in struct.iter_unpack(">qiq", data)]
    return list(itertools.takewhile(lambda unit: unit[0] >= 0 and unit[1] > 0, units))


def end_of(log: dict[int, bytes]) -> int:
    """From the third file before the end on, as far as records can be read."""
    end = 0
    for start in sorted(log)[-3:]:
        data, at = log[start], 0
        while (size := record_at(data, at)) > 0:
            at += size
        end = start + at
        if size < 0:
            break
    return end


def record_at(data: bytes, at: int) -> int:
    """Its size; 0 for the blank at the end of a file, -1 for what is none."""
    size: int
    size, magic = struct.unpack_from(">iI", data, at)
    if magic == 0xCBD43194:
        return 0
    if magic != 0xDAA320A7:
        return -1
    crc, sys_flag = struct.unpack_from(">I24xi", data, at + 8)
    hosts = (20 if sys_flag & 0x10 else 8) + (20 if sys_flag & 0x20 else 8)
    body_at = at + 72 + hosts
    (body_length,) = struct.unpack_from(">i", data, body_at - 4)
    body = data[body_at : body_at + body_length]
    topic_at = body_at + body_length
    properties_at = topic_at + 1 + data[topic_at]
    (properties_length,) = struct.unpack_from(">h", data, properties_at)
    assert properties_at + 2 + properties_length == at + size
    assert zlib.crc32(body) & 0x7FFFFFFF == crc
    return size


def traffic(store: MessageStore) -> None:
    """Of all kinds, over several files of log, queues and index."""
    for number in range(30):
        put_ok(store, "U", 0, b"prepared", sys_flag=MessageSysFlag.TRANSACTION_PREPARED)
        for topic, queue_id in QUEUES:
            put_ok(store, topic, queue_id, b"%d" % number * 40, properties=SEQUENCE,
                   sys_flag=MessageSysFlag.SEQUENCED)  # fmt: skip
        put_ok(store, "RMQ_SYS_TRANS_HALF_TOPIC", 0, b"half", sys_flag=MessageSysFlag.SEQUENCED)


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_the_original_goes_on_where_we_have_stopped(tmp_path: Path, starts: int) -> None:
    for _ in range(starts):
        store = open_store(tmp_path)
        traffic(store)
        end = store.max_phy_offset
        numbers = {queue: store.max_offset(*queue) for queue in QUEUES}
        store.close()
    java = start_java(tmp_path)
    assert java.end == java.dispatched == end
    assert {queue: java.next_offsets[queue] for queue in QUEUES} == numbers
    names = {path.name for path in tmp_path.iterdir()}
    known = {"commitlog", "consumequeue", "index", "checkpoint", "config", "lock"}
    assert names - known == OURS


def test_the_original_cuts_the_log_at_damage_that_we_pass_over(tmp_path: Path) -> None:
    """So ``mqstore verify`` comes before the way back."""
    store = open_store(tmp_path)
    offsets = [put_ok(store, body=b"%d" % number * 9).phy_offset for number in range(20)]
    store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[offsets[5] + 4] ^= 1
    path.write_bytes(data)
    assert start_java(tmp_path).end == offsets[5]
    store = open_store(tmp_path)
    assert store.max_phy_offset > offsets[-1]
    store.close()
