"""Oddities of ``docs/quirks.md`` that no test of their subject shows."""

from __future__ import annotations

import zlib

import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import body_crc32
from aiorocketmq.remoting.protocol.bodies.reset import ResetOffsetBody
from aiorocketmq.remoting.protocol.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ProcessQueueInfo,
)
from aiorocketmq.remoting.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.signed import signed_content
from aiorocketmq.remoting.transport.config import ClientSettings


def test_names_that_are_misspelt_stay_so_on_the_wire() -> None:
    assert b'"droped":true' in encode_body(ProcessQueueInfo(dropped=True))
    assert decode_body(ProcessQueueInfo, b'{"droped":true}').dropped
    assert b'"spentTimeMills":7' in encode_body(ConsumeMessageDirectlyResult(spent_time_mills=7))


@pytest.mark.parametrize("form", list(SerializeType))
def test_an_empty_text_is_absent_in_a_binary_header(form: SerializeType) -> None:
    command = RemotingCommand(code=10, ext_fields={"a": "", "b": "x"})
    fields = decode_header(form, encode_header(command, form)).ext_fields
    assert fields is not None
    assert fields.get("a") == (None if form == SerializeType.ROCKETMQ else "")
    assert fields["b"] == "x"


def test_queues_are_written_as_keys() -> None:
    body = ResetOffsetBody(offset_table={MessageQueue("T", "b", 0): 5})
    assert encode_body(body) == (b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}')


def test_a_crc_has_31_bits() -> None:
    body = next(text for n in range(100) if zlib.crc32(text := b"%d" % n) >= 2**31)
    assert body_crc32(body) == zlib.crc32(body) - 2**31


def test_msgpack_is_spoken_only_by_who_asks_for_it() -> None:
    assert ClientSettings().serialize_type == SerializeType.JSON
    assert int(SerializeType.MSGPACK) == 0x4D
    command = RemotingCommand(code=10, ext_fields={"a": "1"})
    assert decode_header(0x4D, encode_header(command, SerializeType.MSGPACK)) == command


def test_the_flag_of_a_query_by_unique_key_is_not_signed() -> None:
    fields = {"topic": "T", "key": "K"}
    flagged = fields | {"_UNIQUE_KEY_QUERY": "true"}
    assert signed_content(flagged) == signed_content(fields) == b"KT"
    assert signed_content(flagged, ("Signature",)) == b"trueKT"


def test_what_stands_twice_is_written_twice() -> None:
    item = BrokerStatsItem(sum=3)
    written = encode_body(BrokerStatsData(stats_day=item, stats_hour=item))
    assert b"$ref" not in written
    assert written.count(b'"sum":3') == 2
