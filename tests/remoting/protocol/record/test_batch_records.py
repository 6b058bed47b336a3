"""The one pass over a batch body does what decoding it into items and putting those together would
do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import KeyEntries
from aiorocketmq.remoting.protocol.message.index_keys import key_hash, keys_of
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import tags_code_of
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import (
    LogEnd,
    QueueEnd,
    decode_record,
    record_overhead,
    topic_field,
)
from aiorocketmq.remoting.protocol.record.batch import (
    BatchError,
    BatchItem,
    decode_batch,
    encode_batch,
)
from aiorocketmq.remoting.protocol.record.batch_records import (
    batch_problem,
    batch_size,
    merged_properties,
    put_batch,
)
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.put import PutBatch, PutMessage
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from tests.stored import iter_records

from ....store.world import BORN_HOST, NOW, open_store

HOST = pack_host("127.0.0.1", 10911)

PAIRS = [
    b"UNIQ_KEY\x01a1", b"UNIQ_KEY\x01", b"KEYS\x01k1 k2", b"TAGS\x01A", b"TAGS\x01B",
    b"WAIT\x01true", b"x\x01", b"odd", b"",
    b"own\x011", b"own\x012",
]  # fmt: skip
property_strings = st.builds(
    lambda first, found, end: b"\x02".join([*first, *found]) + end,
    st.sampled_from([[], [b"UNIQ_KEY\x01a1"], [b"UNIQ_KEY\x01b2", b"KEYS\x01k1"]]),
    st.lists(st.sampled_from(PAIRS), max_size=4),
    st.sampled_from([b"", b"\x02"]),
)
item = st.builds(
    BatchItem, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), property_strings
)
items = st.lists(item, min_size=1, max_size=8)


class Written(NamedTuple):
    data: bytes
    units: bytes
    keys: list[tuple[int, int, int]]


def encode(data: bytes, shared: bytes, host: bytes = HOST) -> Written:
    measured = batch_size(data, shared)
    if measured is None:
        raise batch_problem(data)
    count, contents = measured
    sys_flag = 0 if len(host) == 8 else MessageSysFlag.BORN_HOST_V6
    end_of_log, queue = LogEnd(), QueueEnd()
    end_of_log.base, end_of_log.store_host, queue.queue_id, queue.topic_field = (
        1000,
        HOST,
        3,
        topic_field("T"),
    )
    log = end_of_log.buffer = bytearray(
        contents + count * (record_overhead(sys_flag) - 1 + len(queue.topic_field))
    )
    keys = KeyEntries()
    at, end, units = put_batch(end_of_log, queue, keys, 0, 7, data, 0, shared, 0, 5, host, 6, 1)
    assert (at, end) == (len(data), len(log))
    return Written(bytes(log), units, [*zip(*keys.take(1 << 30), strict=True)])


@settings(deadline=None)
@given(st.lists(items, min_size=1, max_size=3), property_strings)
def test_as_item_by_item(batches: list[list[BatchItem]], shared: bytes) -> None:
    for batch in batches:
        records = encode(encode_batch(batch), shared)
        found = list(iter_records(records.data, check_crc=True))
        assert [(m.flag, m.stored_body) for m in found] == [
            (item.flag, item.body) for item in batch
        ]
        assert [
            (m.queue_id, m.born_timestamp, m.store_timestamp, m.reconsume_times) for m in found
        ] == [(3, 5, 6, 1)] * len(batch)
        assert [m.queue_offset for m in found] == list(range(7, 7 + len(batch)))
        units = list(CQ_UNIT.iter_unpack(records.units))
        assert [m.commit_log_offset for m in found] == [unit[0] for unit in units]
        assert [m.store_size for m in found] == [unit[1] for unit in units]
        own = [merged_properties(item.properties, shared) for item in batch]
        assert [m.raw_properties for m in found] == own
        assert [unit[2] for unit in units] == [tags_code_of(properties) for properties in own]
        keys = [
            (key.decode("utf-8", "replace"), m.commit_log_offset)
            for m in found
            for key in keys_of(m.raw_properties)
        ]
        assert records.keys == [(key_hash("T", key), offset, 6) for key, offset in keys]


@settings(deadline=None)
@given(items, st.data())
def test_a_broken_body_is_refused_as_by_the_decoder(
    batch: list[BatchItem], data: st.DataObject
) -> None:
    body = bytearray(encode_batch(batch))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(1, len(body)))])
    assert outcome(lambda: len(encode(cut, b"").units) // 20) == outcome(
        lambda: len(decode_batch(cut))
    )


def outcome(count: Callable[[], int]) -> int | str:
    try:
        return count()
    except BatchError as error:
        return str(error)


def test_limits() -> None:
    with pytest.raises(BatchError, match="no message"):
        encode(b"", b"")
    with pytest.raises(BatchError, match="together with the batch's"):
        encode(encode_batch([BatchItem(0, b"", b"a\x01" + bytes(32760))]), b"CLUSTER\x01c")


def test_all_are_in_the_index_and_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fields: dict[str, Any] = {"born_host": BORN_HOST, "born_timestamp": NOW, "store_timestamp": NOW}
    sent: list[tuple[str, str, int]] = []
    for number, (topic, width, count) in enumerate(
        [("T", 5, 9), ("T", 5, 30), ("U", 5, 8), ("T", 7, 8), ("T", 7, 3), ("U", 7, 20)]
    ):
        if number in (0, 5):
            single = store.put_message(
                PutMessage("T", 0, b"", b"UNIQ_KEY\x01single%d\x02" % number, **fields)
            )
            sent.append(("T", f"single{number}", single.phy_offset))
        keys = [f"{number}{n:0{width}d}" for n in range(count)]
        items = [BatchItem(0, b"body", f"UNIQ_KEY\x01{key}\x02TAGS\x01A".encode()) for key in keys]
        result = store.put_batch(
            PutBatch(topic=topic, queue_id=0, items=items, properties=b"CLUSTER\x01c", **fields)
        )
        sent += zip([topic] * count, keys, result.phy_offsets, strict=True)
        assert store._indexing.position(-1) == sent[0][2]
    assert store._indexing.waiting == len(sent)
    store.close()  # builds what waits, in files of 39 items
    store = open_store(tmp_path)
    for topic, key, offset in sent:
        record = at_once(store.query.steps(topic, key, 10, 0, 1 << 62)).records
        assert decode_record(record).commit_log_offset == offset, key
    store.close()
