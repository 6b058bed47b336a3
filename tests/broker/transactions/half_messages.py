"""Half messages as a broker reads them."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.record import NewRecord, decode_record, encode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt

NOW = 1_700_000_000_000


def message(
    properties: str,
    body: bytes = b"x",
    age_ms: int = 0,
    topic: str = "RMQ_SYS_TRANS_HALF_TOPIC",
) -> MessageExt:
    host = pack_host("127.0.0.1", 1)
    return decode_record(
        encode_record(NewRecord(
            topic, 0, body, properties.encode(), queue_offset=3,
            phy_offset=100, sys_flag=0,
            born_timestamp=NOW - age_ms, born_host=host, store_timestamp=NOW, store_host=host,
        ))
    )  # fmt: skip
