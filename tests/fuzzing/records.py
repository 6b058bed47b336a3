"""Records, batches, property strings: what messages are made of, on the wire and in the log."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from aiorocketmq.broker.filter.records import record_properties
from aiorocketmq.broker.transactions.half_properties import destination_of
from aiorocketmq.broker.transactions.transaction_log import _decoded
from aiorocketmq.remoting.protocol.message.compression import CompressionError, decompress_body
from aiorocketmq.remoting.protocol.message.dispatched import dispatched_numbers
from aiorocketmq.remoting.protocol.message.index_keys import keys_of
from aiorocketmq.remoting.protocol.message.message_id import (
    format_host,
    offset_message_id,
    parse_offset_message_id,
    unpack_host,
)
from aiorocketmq.remoting.protocol.message.properties import (
    MessageError,
    decode_properties,
    encode_properties,
    find_property,
    tags_code_of,
)
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import decode_record, read_messages, scan
from aiorocketmq.remoting.protocol.record.batch import (
    BatchError,
    BatchItem,
    decode_batch,
    encode_batch,
)
from aiorocketmq.remoting.protocol.record.batch_records import batch_problem, batch_size
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.remoting.protocol.record.verdict import NoRecord
from aiorocketmq.store.model.delay_levels import level_of, parse_delay_levels

from ..remoting.protocol.test_record import sample
from ..sim import told_of
from .parsers import DifferenceError, Parser, same, text_of

_PROPERTIES: Final = encode_properties(
    {"UNIQ_KEY": "7F000001", "TAGS": "TagA", "KEYS": "one two", "DELAY": "3", "own": "é"}
)
_ZLIB: Final = int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB)
_FRAME: Final = ("remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES",)
_LENGTH: Final = ("remoting/protocol/message/properties.py: MAX_PROPERTIES_BYTES",)


def records() -> Iterator[bytes]:
    """One of each kind, and some side by side."""
    plain = sample(properties=_PROPERTIES)
    packed = sample(body=zlib.compress(bytes(300)), sys_flag=_ZLIB)
    hosts = sample(
        born_host=bytes(20), store_host=bytes(20), sys_flag=0x30, topic="Topic", queue_id=7
    )
    yield plain
    yield packed
    yield hosts
    yield plain + packed + hosts + plain


def seen(message: MessageExt) -> dict[str, Any]:
    """All that a message says of itself."""
    shown = {
        name: getattr(message, name)
        for name, value in vars(MessageExt).items()
        if isinstance(value, property) and name != "body"
    }
    try:
        shown["body"] = message.body
    except CompressionError:
        shown["body"] = None
    return shown


def _one_record(data: bytes) -> object:
    return seen(decode_record(data, check_crc=True))


def _some_records(data: bytes) -> object:
    """The scan, the reader of consumers and the one of damaged pulls have to agree."""
    messages, end = read_messages(data, "broker")
    found = scan(data)
    same((len(messages), end), (len(found.records), found.end), "reader and scan")
    salvaged, damaged = read_salvaged(data, "broker")
    same(salvaged[: len(messages)], messages, "salvaged")
    if sum(each.store_size for each in salvaged) + sum(each.size for each in damaged) != len(data):
        raise DifferenceError("what was salvaged and what was not is not all")
    for each in salvaged:
        seen(each)
    for place in damaged:
        if place.message is not None:
            seen(place.message)
    return None


def _half(data: bytes) -> object:
    return _decoded(data, told_of())


def _batch(data: bytes) -> object:
    items = decode_batch(data)
    measured = batch_size(data, b"")
    same(measured is not None and measured[0], len(items) or False, "items of the batch")
    return items


def _batches() -> Iterator[bytes]:
    items = [BatchItem(0, b"body", _PROPERTIES), BatchItem(3, b"b" * 40, b"")]
    yield encode_batch(items)
    yield encode_batch(items[:1])


def _problem_of_batch(data: bytes) -> object:
    return str(batch_problem(data)) if batch_size(data, b"") is None else None


def _properties(data: bytes) -> object:
    """Both ways to a property agree, and what is read out of them never fails."""
    found = decode_properties(data)
    if data.isascii():
        for name, value in found.items():
            same(find_property(data, name.encode()), value.encode(), name)
    tags_code_of(data)
    keys_of(data)
    level_of(data)
    destination_of(data)
    dispatched_numbers(data)
    return found


def _strings() -> Iterator[bytes]:
    yield _PROPERTIES
    yield encode_properties(
        {
            "REAL_TOPIC": "T", "REAL_QID": "3", "PGROUP": "g", "WAIT": "false",
            "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "1,2",
        }
    )  # fmt: skip


def _filtered(data: bytes) -> object:
    return record_properties(data, 0, len(data))


def _decompressed(data: bytes) -> object:
    """The first byte chooses the kind."""
    kind = data[0] % 4 << 8 if data else 0
    return decompress_body(data[1:], int(MessageSysFlag.COMPRESSED) | kind, max_bytes=4096)


def _message_id(data: bytes) -> object:
    text = text_of(data)
    host, phy_offset = parse_offset_message_id(text)
    same(offset_message_id(host, phy_offset), text.upper(), "the id")
    return format_host(host)


def _host(data: bytes) -> object:
    return unpack_host(data)


def _levels(data: bytes) -> object:
    return parse_delay_levels(text_of(data))


_RECORD: Final = "remoting/protocol/record/"
_MESSAGE: Final = "remoting/protocol/message/"
_SIZES: Final = (_RECORD + "layout.py: MOST_SIZE", _RECORD + "layout.py: MAX_TOPIC_BYTES")

PARSERS: Final = (
    Parser(
        "record",
        (_RECORD + "decode.py: decode_record",),
        _SIZES,
        _one_record,
        (NoRecord,),
        bytes_per_byte=300,
        seeds=records,
    ),
    Parser(
        "records",
        (
            _RECORD + "decode.py: read_messages",
            _RECORD + "decode.py: read_records",
            _RECORD + "decode.py: _read_plain",
            _RECORD + "salvage.py: read_salvaged",
            _RECORD + "scan.py: scan",
        ),
        (*_SIZES, *_FRAME),
        _some_records,
        bytes_per_byte=300,
        seeds=records,
    ),
    Parser(
        "half-messages",
        ("broker/transactions/transaction_log.py: _decoded",),
        _SIZES,
        _half,
        seeds=lambda: [sample(topic="RMQ_SYS_TRANS_HALF_TOPIC", properties=_PROPERTIES)],
    ),
    Parser(
        "batches",
        (_RECORD + "batch.py: decode_batch",),
        (_RECORD + "batch.py: MOST_ITEMS",),
        _batch,
        (BatchError,),
        seeds=_batches,
    ),
    Parser(
        "broken-batches",
        (_RECORD + "batch_records.py: batch_problem",),
        (_RECORD + "batch.py: MOST_ITEMS",),
        _problem_of_batch,
        seeds=_batches,
    ),
    Parser(
        "properties",
        (
            _MESSAGE + "properties.py: decode_properties",
            _MESSAGE + "properties.py: find_property",
            _MESSAGE + "index_keys.py: keys_of",
            "store/model/delay_levels.py: level_of",
            "broker/transactions/half_properties.py: destination_of",
            _MESSAGE + "dispatched.py: dispatched_numbers",
        ),
        _LENGTH,
        _properties,
        bytes_per_byte=300,
        seeds=_strings,
    ),
    Parser(
        "send-sequences",
        (_MESSAGE + "send_sequence.py: SendSequence.parse",),
        _LENGTH,
        lambda data: SendSequence.parse(text_of(data)).text,
        (MessageError,),
        seeds=lambda: [b"0af:1:22:1700000000000", b"#a_-Z:0:0:0"],
    ),
    Parser(
        "properties-of-records",
        ("broker/filter/records.py: record_properties",),
        _LENGTH,
        _filtered,
        seeds=records,
    ),
    Parser(
        "compressed-bodies",
        (
            _MESSAGE + "compression.py: decompress_body",
            _MESSAGE + "compression.py: _unpack_lz4",
            _MESSAGE + "compression.py: _unpack_zstd",
        ),
        (_MESSAGE + "compression.py: MAX_DECOMPRESSED_BYTES",),
        _decompressed,
        (CompressionError,),
        seeds=lambda: [b"\0" + zlib.compress(bytes(300)), b"\3" + zlib.compress(b"ab" * 99)],
    ),
    Parser(
        "message-ids",
        (_MESSAGE + "message_id.py: parse_offset_message_id",),
        (),
        _message_id,
        (ValueError,),
        bounded_by="32 or 56 characters",
        seeds=lambda: [offset_message_id(bytes(size), 1 << 40).encode() for size in (8, 20)],
    ),
    Parser(
        "packed-hosts",
        (_MESSAGE + "message_id.py: unpack_host",),
        (_MESSAGE + "message_id.py: _HOST_SIZES",),
        _host,
        (ValueError,),
        seeds=lambda: [bytes(range(8)), bytes(range(20))],
    ),
    Parser(
        "delay-levels",
        ("store/model/delay_levels.py: parse_delay_levels",),
        ("remoting/protocol/java_properties.py: MAX_TEXT_CHARACTERS",),
        _levels,
        (ValueError,),
        seeds=lambda: [b"1s 5s 10s 30s 1m 2h 1d"],
    ),
)
