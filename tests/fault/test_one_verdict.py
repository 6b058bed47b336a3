"""A record of which a disk has lost a sector is the same damaged record to whoever meets it.

No CRC covers the properties: zeros in them decode as well as anything. So each of the readers has
to ask the one verdict.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiorocketmq.client.admin.messages import MessageOperations
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_id import offset_message_id
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.replica.repair import problem_of_records
from aiorocketmq.store.services.scrub import look
from tests.stored import EntryKind, StoreDirectory

from ..store.world import NOW, STORE_HOST, open_store, put_ok
from ..tools import conftest
from ..tools.mqstore_world import MqStore, overwrite, verified

COUNT, VICTIM = 6, 3
FILE_SIZE = 64 << 10
LOG0 = "commitlog/" + "0" * 20
PROBLEM = "a sector of zeros in its properties"


mqstore = conftest.mqstore


class Damaged(NamedTuple):
    """A store that was closed in order. The disk has lost a sector within the properties of one
    record since."""

    root: Path
    begin: int
    size: int

    @property
    def log(self) -> bytes:
        """All records."""
        return (self.root / LOG0).read_bytes()[: self.size * COUNT]

    @property
    def record(self) -> bytes:
        return self.log[self.begin : self.begin + self.size]


def opened(root: Path, **changes: Any) -> MessageStore:
    return open_store(root, mapped_file_size_commit_log=FILE_SIZE, **changes)


@pytest.fixture
def damaged(tmp_path: Path) -> Damaged:
    store = opened(tmp_path / "store")
    for number in range(COUNT):
        properties = {"KEYS": "all", "UNIQ_KEY": f"id{number}", "long": "x" * 1500, "TAGS": "t"}
        result = put_ok(
            store, body=b"%d" % number, properties=properties, store_timestamp=NOW + number
        )
    store.close()
    size = result.size
    begin = size * VICTIM
    sector = begin + 512 - begin % 512
    assert begin + 200 < sector < sector + 512 < begin + size - 100
    overwrite(tmp_path / "store" / LOG0, sector, bytes(512))
    return Damaged(tmp_path / "store", begin, size)


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_recovery(damaged: Damaged, caplog: pytest.LogCaptureFixture) -> None:
    (damaged.root / "checkpoint").unlink()
    (damaged.root / "abort").touch()
    store = opened(damaged.root)
    assert store.recovery is not None
    assert store.recovery.damaged == [(damaged.begin, damaged.begin + damaged.size)]
    assert PROBLEM in told(caplog)
    store.close()


def test_a_slave_whose_master_has_it(
    damaged: Damaged, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slave = opened(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    slave.replica.append(0, damaged.log)
    assert slave.damage.places == {damaged.begin: damaged.size}
    assert PROBLEM in told(caplog)
    assert slave.max_offset("T", 0) == COUNT
    slave.close()


def test_a_pull(damaged: Damaged, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(damaged.root)
    assert store.get("T", 0, 0).damaged == 1
    assert store.get("T", 0, 0).count == COUNT - 1
    assert PROBLEM in told(caplog)
    store.close()


def test_a_query_by_key(damaged: Damaged) -> None:
    store = opened(damaged.root)
    records = at_once(store.query.steps("T", "all", 64, 0, 1 << 62)).records
    assert [message.body for message in read_salvaged(records, "")[0]] == [
        b"0",
        b"1",
        b"2",
        b"4",
        b"5",
    ]
    store.close()


class Asking(MessageOperations):
    """An admin that gets one answer."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def _invoke(self, *_args: Any, **_more: Any) -> Any:
        return self


def test_a_query_by_id(damaged: Damaged) -> None:
    name = offset_message_id(STORE_HOST, damaged.begin)
    with pytest.raises(ConfigError, match=PROBLEM):
        asyncio.run(Asking(damaged.record).view_message(name))


def test_a_client(damaged: Damaged) -> None:
    messages, [left_out] = read_salvaged(damaged.log, "broker")
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"4", b"5"]
    assert (left_out.at, left_out.size) == (damaged.begin, damaged.size)
    assert PROBLEM in left_out.problem


def test_the_scrub(damaged: Damaged) -> None:
    [(place, size, problem)] = look(damaged.log, 0, FILE_SIZE).damaged
    assert (place, size) == (damaged.begin, damaged.size)
    assert PROBLEM in problem


def test_a_repair(damaged: Damaged) -> None:
    """Another replica that has it like that has nothing to offer."""
    assert PROBLEM in (problem_of_records(damaged.record, damaged.begin, FILE_SIZE) or "")


def test_mqstore_verify(damaged: Damaged, mqstore: MqStore) -> None:
    [finding] = verified(mqstore, damaged.root).findings
    assert finding.startswith(f"{LOG0}: byte ")
    assert f"record at {damaged.begin}: {PROBLEM}" in finding


def test_the_offline_entries(damaged: Damaged) -> None:
    [entry] = [
        entry for entry in StoreDirectory(damaged.root).entries() if entry.kind is EntryKind.DAMAGED
    ]
    assert entry.phy_offset == damaged.begin
    assert PROBLEM in entry.problem


@pytest.mark.parametrize("by", ["file", "queue"])
def test_spark_reads_the_store(damaged: Damaged, by: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
    from aiorocketmq.spark_connector.store.store_options import parse_store_options
    from aiorocketmq.spark_connector.store.store_parts import StoreDamageError, plan
    from aiorocketmq.spark_connector.store.store_reader import read_part

    def bodies(**more: str) -> list[bytes]:
        options = parse_store_options(
            {"path": str(damaged.root), "partitionBy": by, "columns": "body", **more}
        )
        return [
            body
            for part in plan(options)
            for batch in read_part(part, options)
            for body in batch["body"].to_pylist()
        ]

    with pytest.raises(StoreDamageError, match=PROBLEM):
        bodies()
    assert bodies(failOnDamage="false") == [b"0", b"1", b"2", b"4", b"5"]


def test_spark_reads_a_topic(damaged: Damaged) -> None:
    """A broker of the original hands it out."""
    pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
    from aiorocketmq.spark_connector.decode.decode import (
        DecodeError,
        DecodeOptions,
        decode_records,
    )

    with pytest.raises(DecodeError, match=PROBLEM) as error:
        list(decode_records(damaged.log, ["body"], DecodeOptions(broker_name="b", check_crc=True)))
    assert error.value.position == damaged.begin
