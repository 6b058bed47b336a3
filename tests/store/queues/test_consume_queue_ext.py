"""The extension of consume queues: its file format, and a store that keeps bitmaps with its
messages."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.properties import tags_code, tags_code_of
from aiorocketmq.remoting.protocol.record.batch import BatchError, BatchItem, encode_batch
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.model.put import PutBatch, PutMessage
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus
from aiorocketmq.store.queues.consume_queue_ext import (
    MAX_BITMAP_SIZE,
    ConsumeQueueExt,
    ExtUnit,
    is_ext_address,
)

from ...fault.disks import BadSectorDisk, FullDisk, LossyDisk
from ...sim import ManualClock, told_of
from ..world import (
    BORN_HOST,
    NOW,
    STORE_HOST,
    Filter,
    bodies_of,
    config_of,
    crash,
    folder_contents,
    messages_of,
    open_store,
    put_ok,
)

SIZE = 200
BASE = -(1 << 63)


def ext_at(path: Path, size: int = SIZE, disk: Disk | None = None) -> ConsumeQueueExt:
    ext = ConsumeQueueExt(MappedFileQueue(path, size, disk or PosixDisk()), told_of())
    ext.load()
    return ext


# -- the format


def test_a_unit_has_the_layout_of_the_original(tmp_path: Path) -> None:
    ext = ext_at(tmp_path)
    assert ext.put(ExtUnit(2598919, NOW, bytes(range(14)))) == BASE
    assert ext.put(ExtUnit(-5, NOW + 1)) == BASE + 34
    data = (tmp_path / ("0" * 20)).read_bytes()
    assert len(data) == SIZE
    assert data[:34].hex() == f"0022{2598919:016x}{NOW:016x}000e{bytes(range(14)).hex()}"
    assert data[34:54] == struct.pack(">hqqh", 20, -5, NOW + 1, 0)
    assert data[54:] == bytes(SIZE - 54)
    assert ext.get(BASE) == ExtUnit(2598919, NOW, bytes(range(14)))
    assert ext.get(BASE + 34) == ExtUnit(-5, NOW + 1, b"")


def test_addresses_are_no_tags_codes() -> None:
    assert is_ext_address(BASE)
    assert is_ext_address(-2147483649)
    assert not is_ext_address(-2147483648)
    assert not is_ext_address(NOW)


def test_a_file_ends_with_a_mark_and_at_least_four_bytes(tmp_path: Path) -> None:
    ext = ext_at(tmp_path)
    for _ in range(4):
        ext.put(ExtUnit(1, 2, bytes(29)))  # 49 bytes each: 196 = 200 - 4 are used
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0" * 20]
    assert ext.put(ExtUnit(7, 8)) == BASE + SIZE
    first, second = sorted(tmp_path.iterdir())
    assert first.read_bytes()[196:] == b"\xff\xff\0\0"
    assert second.name == f"{SIZE:020d}"
    assert second.read_bytes()[:2] == b"\0\x14"
    for _ in range(5):
        ext.put(ExtUnit(1, 2, bytes(12)))  # 20 + 5 * 32 = 180: another would leave nothing
    assert ext.put(ExtUnit(1, 2)) == BASE + 2 * SIZE
    assert second.read_bytes()[180:] == b"\xff\xff" + bytes(18)


def test_what_does_not_fit_has_no_address(tmp_path: Path) -> None:
    ext = ext_at(tmp_path / "small")
    assert ext.put(ExtUnit(1, 2, bytes(SIZE - 4 - 20 + 1))) is None
    assert ext.put(ExtUnit(1, 2, bytes(SIZE - 4 - 20))) == BASE
    large = ext_at(tmp_path / "large", 1 << 16)
    assert large.put(ExtUnit(1, 2, bytes(MAX_BITMAP_SIZE + 1))) is None
    assert large.put(ExtUnit(1, 2, bytes(MAX_BITMAP_SIZE))) == BASE
    assert (tmp_path / "large" / ("0" * 20)).read_bytes()[:2] == b"\x7f\xff"
    full = ext_at(tmp_path / "full", SIZE, FullDisk(SIZE))
    addresses = [full.put(ExtUnit(1, 2, bytes(12))) for _ in range(8)]
    assert addresses == [BASE + 32 * number for number in range(6)] + [None, None]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.data())
def test_what_was_put_is_found_again(tmp_path: Path, sizes: list[int], data: st.DataObject) -> None:
    shutil.rmtree(tmp_path / "q", ignore_errors=True)
    ext = ext_at(tmp_path / "q")
    chance = random.Random(1)
    units = [
        ExtUnit(chance.getrandbits(31), NOW + number, chance.randbytes(size))
        for number, size in enumerate(sizes)
    ]
    addresses = [ext.put(unit) for unit in units]
    assert None not in addresses
    found = [ext.get(address) for address in addresses if address is not None]
    assert found == units
    assert ext.get(BASE + ext.end) is None
    ext.close()
    kept = data.draw(st.integers(1, len(units)))
    again = ext_at(tmp_path / "q")
    assert again.cut(addresses[kept - 1])
    again.finish()
    assert [again.get(address) for address in addresses if address is not None] == units[:kept] + [
        None
    ] * (len(units) - kept)
    assert again.put(ExtUnit(9, 9)) is not None
    # As the original reads it on its start: by skipping from the first byte of each file.
    walked = []
    for path in sorted((tmp_path / "q").iterdir()):
        content, at = path.read_bytes(), 0
        while at + 2 <= len(content) and (size := struct.unpack_from(">h", content, at)[0]) > 0:
            walked.append(int(path.name) + at + BASE)
            at += size
    assert walked[:kept] == addresses[:kept]
    assert len(walked) == kept + 1
    again.close()


def test_addresses_that_lead_nowhere(tmp_path: Path) -> None:
    ext = ext_at(tmp_path / "q")
    for _ in range(5):
        ext.put(ExtUnit(1, 2, bytes(29)))
    assert ext.get(5) is None
    assert ext.get(BASE + 196) is None  # the mark at the end of a file
    assert ext.get(BASE + 1000) is None
    ext.files.files[0].map[49:51] = b"\0\x05"  # shorter than a unit can be
    assert ext.get(BASE + 49) is None
    ext.files.files[0].map[0:2] = b"\x7f\xff"  # reaches over the end of the file
    assert ext.get(BASE) is None
    assert not ext.cut(BASE + 49)
    assert ext.cut(None)
    ext.finish()
    assert list(tmp_path.rglob("*")) == []


def test_files_expire_when_no_unit_in_them_is_used(tmp_path: Path) -> None:
    ext = ext_at(tmp_path)
    for _ in range(12):
        ext.put(ExtUnit(1, 2, bytes(29)))
    assert len(ext.files.files) == 3
    assert ext.expired(None) == ext.expired(7) == ext.expired(BASE + SIZE - 1) == []
    assert [file.start for file in ext.expired(BASE + SIZE)] == [0]
    assert [file.start for file in ext.expired(BASE + 10 * SIZE)] == [0, SIZE]


# -- in a store


def bitmap_of(topic: str, properties: bytes, code: int, _stored_ms: int) -> bytes | None:
    return None if topic == "None" else b"%s|%d" % (properties, code)


def extended(root: Path, disk: Disk | None = None, **changes: Any) -> MessageStore:
    values: dict[str, Any] = {
        "enable_consume_queue_ext": True,
        "mapped_file_size_consume_queue_ext": 400,
    } | changes
    return MessageStore.open(
        config_of(root, **values), ManualClock(), store_host=STORE_HOST, disk=disk,
        bitmap_of=bitmap_of
    )  # fmt: skip


def fill(store: MessageStore, count: int = 40, topic: str = "T") -> list[bytes]:
    bodies = [b"%d" % number + bytes(number * 9) for number in range(count)]
    for number, body in enumerate(bodies):
        put_ok(
            store,
            topic,
            body=body,
            properties={"TAGS": f"t{number % 3}"},
            store_timestamp=NOW + number,
        )
    return bodies


def check(store: MessageStore, count: int, topic: str = "T", first: int = 0) -> None:
    for number in range(first, count):
        tag = f"t{number % 3}"
        expected = ExtUnit(
            tags_code(tag), NOW + number, b"TAGS\x01%s|%d" % (tag.encode(), tags_code(tag))
        )
        assert store.entries.ext_unit(topic, 0, number) == expected, number
    assert store.entries.ext_unit(topic, 0, count) is None


def test_each_message_has_its_bitmap(tmp_path: Path) -> None:
    store = extended(tmp_path, mapped_file_size_consume_queue=2000)
    bodies = fill(store)
    check(store, 40)
    wanted = frozenset({tags_code("t1")})
    result = store.get("T", 0, 0, tags=wanted)
    assert result.count == 13
    assert result.next_begin_offset == 40
    seen: list[ExtUnit] = []
    result = store.get(
        "T",
        0,
        0,
        record_filter=Filter(
            accepts_ext=lambda unit: bool(seen.append(unit)) or unit.store_timestamp >= NOW + 38
        ),
    )
    assert (result.count, len(seen)) == (2, 40)
    assert (
        store.get("T", 0, 0, record_filter=Filter(accepts_ext=lambda unit: False)).status
        is GetMessageStatus.NO_MATCHED_MESSAGE
    )
    assert [code for _, _, code in store.entries.some("T", 0, 0, 3) or []] == [
        tags_code(f"t{n}") for n in range(3)
    ]
    store.close()
    names = sorted(path.name for path in (tmp_path / "consumequeue_ext/T/0").iterdir())
    assert names[:2] == ["0" * 20, f"{400:020d}"]
    assert (tmp_path / "consumequeue/T/0" / ("0" * 20)).read_bytes()[12:20] == struct.pack(
        ">q", BASE
    )
    store = extended(tmp_path, mapped_file_size_consume_queue=2000)
    assert store.recovery is not None
    assert store.recovery.records == 0
    check(store, 40)
    assert bodies_of(store) == bodies
    put_ok(store, properties={"TAGS": "t1"}, store_timestamp=NOW + 40)
    check(store, 41)
    store.close()


def test_batches_have_bitmaps_too_half_messages_and_refused_ones_none(tmp_path: Path) -> None:
    store = extended(tmp_path)
    items = [BatchItem(0, b"%d" % number, b"TAGS\x01t%d" % (number % 3)) for number in range(25)]
    fields = {"born_host": BORN_HOST, "born_timestamp": 1, "store_timestamp": NOW}
    store.put_batch(PutBatch(topic="T", queue_id=0, items=items, properties=b"A\x01b", **fields))  # type: ignore[arg-type]
    for number in range(25):
        properties = b"TAGS\x01t%d\x02A\x01b" % (number % 3)
        code = tags_code_of(properties)
        assert store.entries.ext_unit("T", 0, number) == ExtUnit(
            code, NOW, b"%s|%d" % (properties, code)
        )
    put_ok(store, "H", sys_flag=4)
    assert store.put_message(PutMessage("X", 0, bytes(9000), b"", BORN_HOST, 1, NOW)).count == 1
    put_ok(store, "None", properties={"TAGS": "t1"})
    assert store.entries.ext_unit("None", 0, 0) == ExtUnit(tags_code("t1"), NOW, b"")
    store.close()
    assert sorted(path.name for path in (tmp_path / "consumequeue_ext").iterdir()) == ["None", "T"]


def test_a_batch_of_very_many_is_stored_or_refused_not_both(tmp_path: Path) -> None:
    count = (1 << 16) + 1
    store = extended(
        tmp_path, mapped_file_size_commit_log=1 << 23, mapped_file_size_consume_queue=6_000_000
    )
    batch = encode_batch([BatchItem(0, b"", b"")] * count)
    try:
        result = store.put_batch(
            PutBatch(
                topic="T",
                queue_id=0,
                items=batch,
                born_host=BORN_HOST,
                born_timestamp=1,
                store_timestamp=NOW,
            )
        )
    except BatchError:
        assert store.max_offset("T", 0) == 0, "it is sent again"
    else:
        assert (result.status, result.count, store.max_offset("T", 0)) == (
            PutStatus.PUT_OK,
            count,
            count,
        )
    store.close()


def test_listeners_are_told_the_real_tags_code(tmp_path: Path) -> None:
    store = extended(tmp_path)
    told: list[Any] = []
    store.arrivals.listeners.append(lambda *event: told.append(event))
    store.arrivals.watch("T", 0)
    put_ok(store, properties={"TAGS": "t1"})
    store.arrivals.notify()
    assert told == [("T", 0, 1, tags_code("t1"), NOW)]
    store.close()


def test_a_long_bitmap_or_a_full_disk_costs_the_bitmap_not_the_message(tmp_path: Path) -> None:
    store = MessageStore.open(
        config_of(tmp_path, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=400),
        ManualClock(), store_host=STORE_HOST, bitmap_of=lambda *_: bytes(379),
    )  # fmt: skip
    put_ok(store, properties={"TAGS": "t1"})
    assert store.entries.ext_unit("T", 0, 0) is None
    assert [code for _, _, code in store.entries.some("T", 0, 0, 1) or []] == [tags_code("t1")]
    store.close()


@pytest.mark.parametrize(
    "lost",
    ["", "consumequeue", "consumequeue_ext", "checkpoint", f"consumequeue_ext/T/0/{800:020d}"],
)
def test_after_a_crash_bitmaps_are_made_again(tmp_path: Path, lost: str) -> None:
    store = extended(tmp_path)
    fill(store, 20)
    asyncio.run(store.sync())
    for number in range(20, 40):
        put_ok(
            store, body=b"x", properties={"TAGS": f"t{number % 3}"}, store_timestamp=NOW + number
        )
    crash(store)
    path = tmp_path / lost
    if lost:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    store = extended(tmp_path)
    check(store, 40)
    assert len(bodies_of(store)) == 40
    put_ok(store, properties={"TAGS": "t1"}, store_timestamp=NOW + 40)
    check(store, 41)
    store.close()


def test_an_extension_that_cannot_be_read_keeps_no_message_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is derived: what it says of a message can be seen by looking at that."""
    store = extended(tmp_path, mapped_file_size_consume_queue=2000)
    fill(store)
    store.close()
    store = extended(tmp_path, mapped_file_size_consume_queue=2000)
    for path in (tmp_path / "consumequeue_ext/T/0").iterdir():
        path.unlink()
    assert store.get("T", 0, 0, tags=frozenset({tags_code("t1")})).count == 32
    assert store.get("T", 0, 32, record_filter=Filter(accepts_ext=lambda unit: False)).count == 8
    assert store.entries.ext_unit("T", 0, 3) is None
    assert len([line for line in caplog.messages if "cannot be read" in line]) == 1
    crash(store)
    store = extended(tmp_path, mapped_file_size_consume_queue=2000)
    check(store, 40)
    store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_one_on_a_bad_sector_is_made_again(tmp_path: Path, clean: bool) -> None:
    store = extended(tmp_path)
    fill(store)
    store.close() if clean else crash(store)
    disk = BadSectorDisk()
    disk.bad = {f"consumequeue_ext/T/0/{at:020d}": 0 for at in range(0, 8000, 400)}
    store = extended(tmp_path, disk)
    check(store, 40)
    store.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_it_keeps_no_descriptor(tmp_path: Path) -> None:
    """There may be tens of thousands, and connections need them."""
    store = extended(tmp_path)

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for queue_id in range(20):
        put_ok(store, queue_id=queue_id, properties={"TAGS": "t1"})
    assert descriptors() <= before + 3
    store.close()
    store = extended(tmp_path)
    before = descriptors()
    for queue_id in range(20):
        for _ in range(20):
            found = store.get("T", queue_id, 0, tags=frozenset({tags_code("t1")}))
            assert found.count == 1
    assert descriptors() <= before + 3
    store.close()


def test_switched_off_it_is_read_and_not_written(tmp_path: Path) -> None:
    store = extended(tmp_path)
    fill(store, 9)
    store.close()
    before = folder_contents(tmp_path / "consumequeue_ext")
    store = open_store(tmp_path, mapped_file_size_consume_queue_ext=400)
    put_ok(store, properties={"TAGS": "t1"}, store_timestamp=NOW + 9)
    assert store.entries.ext_unit("T", 0, 9) is None
    check(store, 9)
    assert store.get("T", 0, 0, tags=frozenset({tags_code("t1")})).count == 4
    store.close()
    assert folder_contents(tmp_path / "consumequeue_ext") == before
    store = open_store(
        tmp_path
    )  # with another file size it cannot be read: everything matches, as in the original
    assert store.get("T", 0, 0, tags=frozenset({tags_code("t1")})).count == 10
    store.close()
    store = extended(tmp_path)
    put_ok(store, properties={"TAGS": "t2"}, store_timestamp=NOW + 10)
    unit = store.entries.ext_unit("T", 0, 10)
    assert unit is not None
    assert unit.store_timestamp == NOW + 10
    store.close()
    with pytest.raises(StoreFileError, match="configured file size"):
        extended(tmp_path, mapped_file_size_consume_queue_ext=500)


def test_a_store_that_never_had_one_has_no_folder(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    assert store.entries.ext_unit("T", 0, 0) is None
    store.close()
    assert not (tmp_path / "consumequeue_ext").exists()


def test_it_goes_with_its_topic(tmp_path: Path) -> None:
    store = extended(tmp_path)
    fill(store)
    fill(store, topic="U")
    at_once(store.delete_topic_in_slices("T"))
    assert [path.name for path in (tmp_path / "consumequeue_ext").iterdir()] == ["U"]
    fill(store, 5)
    check(store, 5)
    check(store, 40, "U")
    store.close()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(
    st.lists(st.sampled_from(["put", "put", "put", "sync", "stop", "crash", "power"]), max_size=40),
    st.integers(0, 1 << 32),
)
def test_any_history_leaves_each_message_its_own_bitmap(
    tmp_path: Path, history: list[str], seed: int
) -> None:
    root = tmp_path / "store"
    shutil.rmtree(root, ignore_errors=True)
    disk = LossyDisk()
    store = extended(root, disk)
    number = 0
    for step, action in enumerate(history):
        if action == "put":
            for _ in range(5):
                number += 1
                put_ok(
                    store,
                    properties={"TAGS": f"n{number}"},
                    store_timestamp=NOW + number,
                    body=b"%d" % number,
                )
            continue
        if action == "sync":
            asyncio.run(store.sync())
            continue
        store.close() if action == "stop" else crash(store)
        if action == "power":
            disk.fail(root, random.Random(seed + step))
        store = extended(root, disk)
        for message in messages_of(store):
            unit = store.entries.ext_unit("T", 0, message.queue_offset)
            assert unit is not None, message.queue_offset
            torn = (
                b"\0" in message.raw_properties
            )  # nobody was promised it, and no checksum covers them
            assert torn or unit.bitmap.startswith(b"TAGS\x01n%s|" % message.body)
    store.close()


def test_extensions_expire_with_the_commit_log(tmp_path: Path) -> None:
    store = extended(
        tmp_path,
        file_reserved_time=-100_000_000,
        delete_commit_log_files_interval=0,
        delete_consume_queue_files_interval=0,
    )
    fill(store)
    log_file = sorted((tmp_path / "commitlog").iterdir())[-1]
    asyncio.run(store.sync())
    store.cleaning.clean_at_any_hour()
    asyncio.run(store.cleaning.clean())
    assert list((tmp_path / "commitlog").iterdir()) == [log_file]
    first = store.min_offset("T", 0)
    assert first > 20
    check(store, 40, first=first)
    starts = sorted(int(path.name) for path in (tmp_path / "consumequeue_ext/T/0").iterdir())
    unit = store._table["T", 0].unit(first)
    assert unit is not None
    oldest = unit[2] - BASE
    assert starts[0] <= oldest < starts[0] + 400
    assert starts[0] > 0
    store.close()
    store = extended(tmp_path)
    check(store, 40, first=first)
    store.close()
