"""Messages as brokers keep them, for tests of pages."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.record.encode import NewRecord, encode_record

BORN_MS = 1_700_000_000_000


def message(
    topic: str = "Orders",
    body: bytes = b"hello",
    *,
    at_ms: int = BORN_MS,
    offset: int = 0,
    reconsume_times: int = 0,
    **properties: str,
) -> MessageExt:
    """``at_ms``: when it was stored; it lies at ``offset`` of queue 0."""
    record = NewRecord(
        topic=topic,
        body=body,
        queue_id=0,
        flag=0,
        queue_offset=offset,
        phy_offset=offset * 1000,
        sys_flag=0,
        born_timestamp=BORN_MS,
        born_host=pack_host("10.0.0.9", 4000),
        store_timestamp=at_ms,
        store_host=pack_host("10.0.0.1", 10911),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        properties=encode_properties({"UNIQ_KEY": "ID1", **properties}),
    )
    return decode_record(encode_record(record))
