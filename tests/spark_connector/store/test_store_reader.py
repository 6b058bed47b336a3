"""Store directories as DataFrames, without Spark: which parts there are and what each gives."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
pytest.importorskip("numpy", reason="the extra [spark] is not installed")

from hypothesis import assume, given
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.spark_connector.access.errors import DamagedMessageError
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS
from aiorocketmq.spark_connector.store.store_options import parse_store_options
from aiorocketmq.spark_connector.store.store_parts import (
    LogFilePart,
    QueuePart,
    StoreDamageError,
    plan,
)
from aiorocketmq.spark_connector.store.store_reader import read_part
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from tests.golden_files import golden_lines, unpack_golden

from ..store_folders import WrittenStore
from ..stored_records import Stored, compressed, properties

BOTH = pytest.mark.parametrize("by", ["file", "queue"])


def read(root: Path | str, **options: str) -> list[dict[str, Any]]:
    """All rows, by way of what Spark would send to executors."""
    parsed = parse_store_options(
        {"path": str(root), "columns": ",".join(SOURCE_COLUMNS), **options}
    )
    parts = pickle.loads(pickle.dumps(plan(parsed)))
    rows = []
    for part in parts:
        for batch in read_part(part, pickle.loads(pickle.dumps(parsed))):
            assert batch.num_rows
            rows += batch.to_pylist()
    return rows


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["offsetMsgId"][-16:], 16) for row in rows]


def some_records(count: int, size: int = 100) -> list[Stored]:
    return [
        Stored(
            topic=b"orders" if number % 3 else b"%RETRY%group",
            queue_id=number % 2,
            body=bytes([number % 256]) * (size + number % 7),
            properties=properties(KEYS=f"k{number}", TAGS="even" if number % 2 == 0 else "odd"),
            store_timestamp=1_700_000_000_000 + number * 1000,
        )
        for number in range(count)
    ]


# --- what there is to read
# ------------------------------------------------------------------------------------------


@BOTH
def test_all_records_are_read(by: str, tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "broker-a", some_records(40))
    rows = read(store.root, partitionBy=by)
    assert {row["brokerName"] for row in rows} == {"broker-a"}
    expected = (
        store.records
        if by == "file"
        else sorted(store.records, key=lambda r: (r.topic, r.queue_id, r.queue_offset))
    )
    assert [(row["topic"], row["queueId"], row["queueOffset"], row["body"]) for row in rows] == [
        (record.topic.decode(), record.queue_id, record.queue_offset, record.body)
        for record in expected
    ]


@BOTH
@pytest.mark.parametrize("size", ["1k", "8m"])
def test_records_that_are_longer_than_a_batch(by: str, size: str, tmp_path: Path) -> None:
    records = [Stored(body=bytes(length)) for length in (10, 5000, 900, 1100, 30_000, 1)]
    store = WrittenStore(tmp_path / "store", records, file_size=40_000)
    assert [len(row["body"]) for row in read(store.root, partitionBy=by, arrowBatchBytes=size,
    arrowBatchRows="2")] == [
        10, 5000, 900, 1100, 30_000, 1
    ]  # fmt: skip


@BOTH
def test_bodies_that_become_long_are_several_batches(by: str, tmp_path: Path) -> None:
    """``arrowBatchBytes`` goes by bodies as they are, not by what they are compressed to."""
    body, flag = compressed(bytes(1 << 20), 0)
    records = [Stored(body=body, sys_flag=flag) for _ in range(12)]
    store = WrittenStore(tmp_path / "store", records, file_size=1 << 20)
    parsed = parse_store_options(
        {"path": str(store.root), "columns": "queueOffset,body", "partitionBy": by,
         "arrowBatchBytes": "4m"}
    )  # fmt: skip
    found = [batch for part in plan(parsed) for batch in read_part(part, parsed)]
    rows = [row for batch in found for row in batch.column("queueOffset").to_pylist()]
    assert (rows, max(batch.num_rows for batch in found)) == (list(range(12)), 3)
    assert {value for batch in found for value in batch.column("body").to_pylist()} == {
        bytes(1 << 20)
    }


def test_what_lies_between_records_of_a_queue_counts_as_read(tmp_path: Path) -> None:
    """Short records of one queue between long ones of another."""
    records = [Stored(queue_id=n % 2, body=bytes(30_000 * (n % 2) + 10)) for n in range(400)]
    store = WrittenStore(tmp_path / "store", records, file_size=8 << 20, queue_file_units=400)
    parsed = parse_store_options(
        {"path": str(store.root), "columns": "queueOffset", "partitionBy": "queue",
         "arrowBatchBytes": "256k"}
    )  # fmt: skip
    part = next(part for part in plan(parsed) if isinstance(part, QueuePart) and not part.queue_id)
    tracemalloc.start()
    try:
        (batch,) = read_part(part, parsed)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert batch.column("queueOffset").to_pylist() == list(range(200))


def test_records_that_only_rocketmq_5_writes(tmp_path: Path) -> None:
    items = [BatchItem(0, b"one", b""), BatchItem(0, b"two", b"")]
    batch = Stored(
        body=encode_batch(items), sys_flag=MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP
    )
    long = Stored(topic=b"t" * 200, body=b"long", long_topic=True)
    store = WrittenStore(
        tmp_path / "store", [Stored(body=b"first"), batch, long, Stored(body=b"last")]
    )
    assert [row["body"] for row in read(store.root)] == [b"first", b"one", b"two", b"long", b"last"]
    assert [row["body"] for row in read(store.root, topic="t" * 200)] == [b"long"]


def test_a_part_for_each_file(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    parts = plan(parse_store_options({"path": str(store.root)}))
    assert all(isinstance(part, LogFilePart) for part in parts)
    assert [(part.file.start, part.last) for part in parts if isinstance(part, LogFilePart)] == [
        (number * 2000, number == len(parts) - 1) for number in range(len(parts))
    ]
    assert len(parts) > 3


def test_parts_of_a_queue(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", [Stored() for _ in range(12)])
    options = {"path": str(store.root), "partitionBy": "queue", "maxRecordsPerPartition": "5"}
    parts = plan(parse_store_options(options))
    assert [(part.first, part.end) for part in parts if not isinstance(part, LogFilePart)] == [
        (0, 5),
        (5, 10),
        (10, 12),
    ]
    assert [
        row["queueOffset"]
        for row in read(store.root, partitionBy="queue", maxRecordsPerPartition="5")
    ] == [*range(12)]


@BOTH
def test_filters(by: str, tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    bodies = {number: record.body for number, record in enumerate(store.records)}

    def numbers(**options: str) -> list[int]:
        found = [row["body"] for row in read(store.root, partitionBy=by, **options)]
        return sorted(number for number, body in bodies.items() if body in found)

    assert numbers(topic="orders") == [number for number in range(40) if number % 3]
    assert numbers(topicPattern="%RETRY.*") == [number for number in range(40) if number % 3 == 0]
    assert numbers(subExpression="odd") == [*range(1, 40, 2)]
    assert numbers(startingTimestamp="1700000010000", endingTimestamp="1700000020000") == [
        *range(10, 20)
    ]


@BOTH
def test_files_of_another_time_are_not_read(by: str, tmp_path: Path) -> None:
    hour = 3_600_000
    records = [Stored(body=bytes(300), store_timestamp=number * hour) for number in range(40)]
    store = WrittenStore(tmp_path / "store", records)
    within = {"startingTimestamp": str(20 * hour), "endingTimestamp": str(22 * hour)}
    for record in store.records[1:15] + store.records[30:]:
        if record.phy_offset % store.file_size:  # the first one of a file tells of which time it is
            store.overwrite(record.phy_offset, bytes(50))
    assert [row["queueOffset"] for row in read(store.root, partitionBy=by, **within)] == [20, 21]


@BOTH
def test_several_stores_and_names(by: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        WrittenStore(tmp_path / name, some_records(3))
    both = f"{tmp_path}/one, {tmp_path}/two"
    assert [row["brokerName"] for row in read(both, partitionBy=by)] == ["one"] * 3 + ["two"] * 3
    rows = read(
        "ignored",
        paths=json.dumps([f"{tmp_path}/two", f"file://{tmp_path}/one"]),
        partitionBy=by,
        brokerName="a,b",
    )
    assert [row["brokerName"] for row in rows] == ["a"] * 3 + ["b"] * 3


def test_a_log_in_several_directories_and_a_log_alone(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    others = [tmp_path / "disk1", tmp_path / "disk2"]
    for number, path in enumerate(sorted((store.root / "commitlog").iterdir())):
        others[number % 2].mkdir(exist_ok=True)
        path.rename(others[number % 2] / path.name)
    (store.root / "commitlog").rmdir()
    logs = ",".join(map(str, others))
    for by in ("file", "queue"):
        assert len(read(store.root, storePathCommitLog=logs, partitionBy=by)) == 40
    alone = WrittenStore(tmp_path / "copy", some_records(5))
    assert len(read(alone.root / "commitlog")) == 5


# --- where a log ends, and damage
# -----------------------------------------------------------------------------------


@given(st.integers(1, 8), st.data())
def test_a_log_that_was_cut_anywhere_ends_there(
    tmp_path_factory: Any, count: int, data: st.DataObject
) -> None:
    store = WrittenStore(tmp_path_factory.mktemp("torn") / "store", some_records(count, 300))
    begins = [record.phy_offset for record in store.records]
    end = begins[-1] + len(store.records[-1].encode())
    cut = data.draw(st.integers(0, end))
    hit = next((r for r in reversed(store.records) if r.phy_offset <= cut), store.records[0])
    assume(
        cut < hit.phy_offset + len(hit.encode()) - len(hit.properties)
    )  # nothing proves properties
    filler = data.draw(st.sampled_from([b"\0", b"\xff"]))
    for start in range(0, end, store.file_size):
        if cut < start + store.file_size:
            store.overwrite(max(start, cut), filler * store.file_size)
    whole = [
        begin
        for record, begin in zip(store.records, begins, strict=True)
        if begin + len(record.encode()) <= cut
    ]
    assert offsets(read(store.root)) == whole
    assert sorted(offsets(read(store.root, partitionBy="queue"))) == whole


@given(st.data())
def test_damage_costs_the_records_that_it_hits(tmp_path_factory: Any, data: st.DataObject) -> None:
    records = [msgspec.structs.replace(record, body=b"\xff" * 300) for record in some_records(12)]
    store = WrittenStore(tmp_path_factory.mktemp("damaged") / "store", records)
    hit = data.draw(st.integers(0, 10))
    record = store.records[hit]
    at = record.phy_offset + data.draw(st.sampled_from((0, 4, 7, 28, 35, 84, 87)))
    old = store.log_file(at // store.file_size).read_bytes()[at % store.file_size]
    store.overwrite(at, bytes([old ^ data.draw(st.integers(1, 255))]))
    others = [each.phy_offset for each in store.records if each is not record]
    for by in ("file", "queue"):
        with pytest.raises(StoreDamageError, match="failOnDamage=false"):
            read(store.root, partitionBy=by)
        assert sorted(offsets(read(store.root, partitionBy=by, failOnDamage="false"))) == others


@BOTH
def test_a_wrong_body_is_no_row(by: str, tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(5))
    damaged = store.records[2]
    store.overwrite(damaged.phy_offset + 100, b"!")
    with pytest.raises(
        DamagedMessageError,
        match=f"queue store/{damaged.queue_id}, offset {damaged.queue_offset} .*CRC",
    ):
        read(store.root, partitionBy=by)
    others = [each.phy_offset for each in store.records if each is not damaged]
    assert sorted(offsets(read(store.root, partitionBy=by, failOnDamage="false"))) == others
    assert len(read(store.root, partitionBy=by, checkCrc="false")) == 5


@BOTH
def test_files_that_are_missing(by: str, tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    lost = [record.phy_offset for record in store.records if record.phy_offset // 2000 == 2]
    store.log_file(2).unlink()
    with pytest.raises(StoreDamageError, match="4000 to 6000 are in no file"):
        read(store.root, partitionBy=by)
    rows = read(store.root, partitionBy=by, failOnDamage="false")
    assert sorted(offsets(rows)) == [
        r.phy_offset for r in store.records if r.phy_offset not in lost
    ]


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "zeros"])
def test_a_part_of_a_queue_that_is_gone_is_damage(is_there: bool, tmp_path: Path) -> None:
    """Also behind a log whose first file is deleted: nobody knows what it pointed at."""
    store = WrittenStore(tmp_path / "store", [Stored() for _ in range(40)], file_size=1000)
    store.log_file(0).unlink()
    left = [row["queueOffset"] for row in read(store.root, partitionBy="queue")]
    file = store.root / "consumequeue" / "orders" / "3" / f"{15 * CQ_UNIT.size:020d}"
    file.write_bytes(bytes(file.stat().st_size)) if is_there else file.unlink()
    others = [offset for offset in left if not 15 <= offset < 20]
    assert len(others) == len(left) - 5
    for most in ("3", "100"):
        parts = {"partitionBy": "queue", "maxRecordsPerPartition": most}
        with pytest.raises(StoreDamageError, match="unit 15 of the queue"):
            read(store.root, **parts)
        rows = read(store.root, **parts, failOnDamage="false")
        assert [row["queueOffset"] for row in rows] == others


@pytest.mark.parametrize("phy_offset", [5, -1, 1 << 62], ids=["before", "negative", "behind"])
def test_a_unit_that_points_out_of_the_log_is_damage(phy_offset: int, tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", [Stored() for _ in range(40)], file_size=1000)
    store.log_file(0).unlink()
    left = [row["queueOffset"] for row in read(store.root, partitionBy="queue")]
    file = store.root / "consumequeue" / "orders" / "3" / f"{15 * CQ_UNIT.size:020d}"
    units = bytearray(file.read_bytes())
    CQ_UNIT.pack_into(units, 2 * CQ_UNIT.size, phy_offset, len(Stored().encode()), 0)
    file.write_bytes(units)
    with pytest.raises(StoreDamageError, match="unit 17 of the queue"):
        read(store.root, partitionBy="queue")
    rows = read(store.root, partitionBy="queue", failOnDamage="false")
    assert [row["queueOffset"] for row in rows] == [offset for offset in left if offset != 17]


def test_a_queue_file_that_a_broker_deletes_meanwhile_is_no_damage(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", [Stored() for _ in range(40)], file_size=1000)
    left = [record for record in store.records if record.phy_offset >= 1000]
    store.log_file(0).unlink()
    options = parse_store_options({"path": str(store.root), "partitionBy": "queue"})
    parts = plan(options)
    (store.root / "consumequeue" / "orders" / "3" / f"{0:020d}").unlink()
    rows = [batch.num_rows for part in parts for batch in read_part(part, options)]
    assert sum(rows) == len(left)


def test_files_deleted_at_the_front_are_no_damage(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    store.log_file(0).unlink()
    left = [record.phy_offset for record in store.records if record.phy_offset >= 2000]
    assert offsets(read(store.root)) == left
    assert sorted(offsets(read(store.root, partitionBy="queue"))) == left


def test_a_file_that_ends_without_a_blank_is_damage_unless_it_is_the_last(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(40))
    last = sorted((store.root / "commitlog").iterdir())[-1]
    last.write_bytes(last.read_bytes().rstrip(b"\0")[:-3])
    assert offsets(read(store.root)) == [record.phy_offset for record in store.records[:-1]]
    first_record_of_1 = next(r.phy_offset for r in store.records if r.phy_offset >= 2000)
    end = max(
        r.phy_offset + len(r.encode()) for r in store.records if r.phy_offset < first_record_of_1
    )
    store.log_file(0).write_bytes(store.log_file(0).read_bytes()[:end])
    with pytest.raises(StoreDamageError, match="hole"):
        read(store.root)
    assert offsets(read(store.root, failOnDamage="false")) == [
        record.phy_offset for record in store.records[:-1]
    ]


def test_units_before_the_first_one_of_a_queue_are_no_damage(tmp_path: Path) -> None:
    """Where a queue does not begin at 0, a broker fills the file up to there."""
    store = WrittenStore(tmp_path / "store", [Stored() for _ in range(3)])
    file = store.root / "consumequeue" / "orders" / "3" / f"{0:020d}"
    units = file.read_bytes()[: 3 * CQ_UNIT.size]
    file.write_bytes(CQ_UNIT.pack(0, 0x7FFFFFFF, 0) * 2 + units)
    assert offsets(read(store.root, partitionBy="queue")) == [
        record.phy_offset for record in store.records
    ]


def test_a_message_in_queues_of_several_topics_comes_once(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", [Stored(), Stored(), Stored(topic=b"other")])
    queues = store.root / "consumequeue"
    shutil.copytree(queues / "orders" / "3", queues / "%LMQ%light" / "0")
    of_orders, all_of_them = [0, 1], [0, 1, 0]
    for wanted, expected in (
        ({}, all_of_them),
        ({"topicPattern": ".*"}, all_of_them),
        ({"topicPattern": "%LMQ%.*"}, of_orders),
        ({"topic": "%LMQ%light"}, of_orders),
        ({"topic": "orders,%LMQ%light"}, of_orders),
    ):
        rows = read(store.root, partitionBy="queue", **wanted)
        assert [row["queueOffset"] for row in rows] == expected, wanted


def test_topics_with_queues_of_batches_can_be_read_by_file_only(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", [Stored(), Stored(topic=b"many"), Stored()])
    elsewhere = store.root / "batchconsumequeue"
    elsewhere.mkdir()
    (store.root / "consumequeue" / "many").rename(elsewhere / "many")
    assert len(read(store.root)) == 3
    for topic in ({}, {"topic": "many"}):
        with pytest.raises(ConfigError, match=r"many: .*leave out partitionBy=queue"):
            read(store.root, partitionBy="queue", **topic)
    assert len(read(store.root, partitionBy="queue", topic="orders")) == 2


def test_a_store_without_queues_can_be_read_by_file_only(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path / "store", some_records(4))
    for path in sorted((store.root / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (store.root / "consumequeue").rmdir()
    assert len(read(store.root)) == 4
    with pytest.raises(StoreDamageError, match="partitionBy=file"):
        read(store.root, partitionBy="queue")


# --- stores of the original
# -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["clean-master", "clean-slave", "sigkill-master", "ipv6-master"])
def test_stores_of_the_original(by: str, name: str, tmp_path: Path) -> None:
    unpack_golden(f"store-{name}", tmp_path)
    dump = list(golden_lines(f"store-{name}.dump"))
    expected = {line["offsetMsgId"]: line for line in dump if line["type"] == "msg"}
    in_queues = {
        entry[1]
        for line in dump
        if line["type"] == "cq"
        for entry in line["entries_qoff_phy_size_tag"]
    }
    (root,) = tmp_path.iterdir()
    rows = {row["offsetMsgId"]: row for row in read(root, partitionBy=by, checkCrc="true")}
    if by == "queue":
        expected = {
            key: line for key, line in expected.items() if line["physicalOffset"] in in_queues
        }
    assert rows.keys() == expected.keys()
    for key, line in expected.items():
        row = rows[key]
        assert (row["topic"], row["queueId"], row["queueOffset"], row["flag"],
        row["reconsumeTimes"]) == (
            line["topic"], line["queueId"], line["queueOffset"], line["flag"],
            line["reconsumeTimes"]
        )  # fmt: skip
        assert hashlib.sha1(row["body"]).hexdigest() == line["bodySha1"]
        assert dict(row["properties"]) == line["properties"]
        assert row["bornHost"].replace("::1", "0:0:0:0:0:0:0:1") == line["bornHost"].lstrip("/")


@BOTH
@pytest.mark.parametrize("name", ["group3-n0", "dirty-n1", "mixed-n0", "begin-n2"])
def test_members_of_groups_of_the_original(by: str, name: str, tmp_path: Path) -> None:
    """Behind heads of entries, and in front of them those of an older log; by queue what is
    committed."""
    unpack_golden(f"dledger/store-{name}", tmp_path)
    dump = [line for line in golden_lines(f"dledger/store-{name}.dump") if line["type"] == "entry"]
    expected = {line["physicalOffset"]: line for line in dump}
    (root,) = tmp_path.iterdir()
    rows = {
        int(row["offsetMsgId"][-16:], 16): row
        for row in read(root, partitionBy=by, checkCrc="true")
    }
    older = {place: rows.pop(place) for place in list(rows) if place < min(expected)}
    assert len(older) == (42 if name == "mixed-n0" else 0)
    if by == "queue" and name == "dirty-n1":
        expected = {place: line for place, line in expected.items() if line["index"] <= 343}
    assert rows.keys() == expected.keys()
    for place, line in expected.items():
        row = rows[place]
        assert (row["topic"], row["queueId"], row["queueOffset"], row["flag"]) == (
            line["topic"], line["queueId"], line["queueOffset"], line["flag"]
        )  # fmt: skip
        assert row["bornHost"] == line["bornHost"].lstrip("/")


# --- options
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "name the store"),
        ({"path": "s3://bucket/store"}, "mount the s3 storage"),
        ({"path": "/no/such/folder"}, "is not a directory"),
        ({"path": "."}, "is no store"),
        ({"path": "STORE", "partitionBy": "topic"}, "partitionBy must be one of file, queue"),
        (
            {"path": "STORE", "topic": "a", "topicPattern": "b"},
            "either the option topic or topicPattern",
        ),
        ({"path": "STORE", "topicPattern": "("}, "no regular expression"),
        ({"path": "STORE", "startingTimestamp": "5", "endingTimestamp": "5"}, "must be before"),
        ({"path": "STORE", "maxRecordsPerPartition": "5"}, "needs partitionBy=queue"),
        ({"path": "STORE", "subExpression": "sql: a > 3"}, "DataFrame.where"),
        ({"path": "STORE", "brokerName": "a,b"}, "as many brokers"),
        ({"path": "STORE", "columns": "value"}, "option columns"),
        ({"path": "STORE", "failOnDammage": "true"}, "did you mean failOnDamage"),
        ({"path": "STORE", "arrowBatchBytes": "1g"}, "arrowBatchBytes .* at most 536870912 bytes"),
        ({"paths": "{"}, "JSON list"),
    ],
)
def test_options_that_cannot_be(
    options: dict[str, str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WrittenStore(tmp_path / "store", [Stored()])
    monkeypatch.chdir(tmp_path)
    options = {
        name: value.replace("STORE", str(tmp_path / "store")) for name, value in options.items()
    }
    with pytest.raises(ConfigError, match=text):
        parse_store_options(options)


@BOTH
def test_a_store_with_nothing_in_it(by: str, tmp_path: Path) -> None:
    for name in ("commitlog", "consumequeue"):
        (tmp_path / name).mkdir()
    assert read(tmp_path, partitionBy=by) == []
