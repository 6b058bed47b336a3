"""A slave's store, fed with the log of a master's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.replica.replica_stream import SlaveSide
from aiorocketmq.store.replica.replication import LogRange, MasterSide, ReplicationSettings
from tests.stored import received

from ..world import BORN_HOST, folder_contents, open_store, put_ok

V6_HOST = pack_host("::1", 10911)
DELAYED = encode_properties({"DELAY": "3"})
"""Level 3: the queue has the time of delivery, 10 s later."""

LARGE: dict[str, Any] = {"mapped_file_size_commit_log": 64 << 10}
RECORD_FIELDS: dict[str, Any] = {
    "sys_flag": 0, "born_timestamp": 1, "born_host": BORN_HOST, "store_timestamp": 5,
    "store_host": BORN_HOST,
}  # fmt: skip


def open_slave(root: Path, **changes: Any) -> MessageStore:
    return open_store(root, broker_role=BrokerRole.SLAVE, **changes)


def open_both(root: Path, **changes: Any) -> tuple[MessageStore, MessageStore]:
    """A master's store, and a slave's."""
    return open_store(root / "master", **changes), open_slave(root / "slave", **changes)


def replicate(master: MessageStore, slave: MessageStore, step: int = 3000) -> None:
    """Everything that the slave does not have."""
    settings = ReplicationSettings()
    file_size = master.config.mapped_file_size_commit_log
    sending = MasterSide(settings, 0.0)
    receiving = SlaveSide(slave.max_phy_offset, file_size, settings, 0.0)
    report = receiving.report(0.0)
    assert report is not None
    ends = LogRange(master.min_phy_offset, master.max_phy_offset, file_size)
    sending.receive(report, ends, 0.0)
    while (wanted := sending.wanted(ends, step)) is not None:
        data = master.read(*wanted)
        assert data is not None
        for piece in received(receiving, b"".join(sending.batches(data, 0.0)), 0.0):
            slave.replica.append(*piece)
    assert slave.max_phy_offset == master.max_phy_offset


def follow(slave: MessageStore, data: bytes) -> None:
    """A master's log, from its begin on."""
    settings, file_size = ReplicationSettings(), slave.config.mapped_file_size_commit_log
    sending, receiving = MasterSide(settings, 0.0), SlaveSide(0, file_size, settings, 0.0)
    report = receiving.report(0.0)
    assert report is not None
    sending.receive(report, LogRange(0, len(data), file_size), 0.0)
    while (wanted := sending.wanted(LogRange(0, len(data), file_size), 3000)) is not None:
        begin, size = wanted
        batches = b"".join(sending.batches(data[begin : begin + size], 0.0))
        for piece in received(receiving, batches, 0.0):
            slave.replica.append(*piece)


def queues_of(root: Path) -> dict[str, bytes]:
    return folder_contents(root / "consumequeue")


def whole_record(topic: str, number: int) -> bytes:
    """Of a log with as long ones only, as a master could send it."""
    properties = b"UNIQ_KEY\x01%032d\x02TAGS\x01a\x02" % number
    size = len(
        encode_record(
            NewRecord(topic, 0, b"body", properties, **RECORD_FIELDS, queue_offset=0, phy_offset=0)
        )
    )
    return encode_record(
        NewRecord(
            topic,
            0,
            b"body",
            properties,
            **RECORD_FIELDS,
            queue_offset=number,
            phy_offset=number * size,
        )
    )


def fill(master: MessageStore, count: int = 120) -> None:
    """Messages of all kinds."""
    for number in range(count):
        properties = {"UNIQ_KEY": f"U{number:031d}", "TAGS": "ab"[number % 2], "KEYS": f"k{number}"}
        put_ok(
            master,
            "T",
            number % 4,
            b"body %d" % number,
            properties=properties,
            store_timestamp=1000 + number,
        )
        if number % 10 == 0:
            put_ok(master, "Plain", 0, bytes(number * 20))
            stored_at = 1000 + number
            put_later = master.put_message(
                PutMessage(
                    "SCHEDULE_TOPIC_XXXX",
                    2,
                    b"later",
                    DELAYED,
                    BORN_HOST,
                    1,
                    stored_at,
                    stored_at + 10_000,
                )
            )
            assert put_later.status is PutStatus.PUT_OK


def index_of(folder: Path) -> list[bytes]:
    """The index files of a store, in order."""
    return [data for path, data in folder_contents(folder).items() if path.startswith("index")]
