"""What the Spark connector reads: frames, records as Arrow columns, options, stores; and the
columns that its sink is given."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aiorocketmq.client.errors import ConfigError, MessageError
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, FrameError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import BatchItem, decode_batch, encode_batch
from aiorocketmq.spark_connector.access import seen
from aiorocketmq.spark_connector.access.checkpoint import (
    Checkpoint,
    Mark,
    Origin,
    from_json,
    to_json,
)
from aiorocketmq.spark_connector.access.errors import DamagedMessageError
from aiorocketmq.spark_connector.access.frame_buffer import FrameBuffer
from aiorocketmq.spark_connector.access.offsets import (
    parse_assignment,
    parse_queue_values,
)
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.access.seen import Seen
from aiorocketmq.spark_connector.decode.decode import DecodeError, decode_records
from aiorocketmq.spark_connector.decode.decode_slow import DecodeOptions, read_rows, rows_to_batch
from aiorocketmq.spark_connector.decode.property_columns import PropertyColumns
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS
from aiorocketmq.spark_connector.session.java import parse_version
from aiorocketmq.spark_connector.sink.chunks import Chunk
from aiorocketmq.spark_connector.sink.encode import encode_items
from aiorocketmq.spark_connector.sink.manifest import Batches, Manifest
from aiorocketmq.spark_connector.sink.sink_options import parse_sink_options
from aiorocketmq.spark_connector.sink.staging import (
    StagedRows,
    StagingError,
    folder_of,
    staged_chunks,
)
from aiorocketmq.spark_connector.store.store_options import parse_store_options
from aiorocketmq.spark_connector.store.store_parts import StoreDamageError, plan
from aiorocketmq.spark_connector.store.store_reader import read_part

from ..spark_connector.store_folders import WrittenStore
from ..spark_connector.stored_records import Stored, compressed, joined
from ..spark_connector.stored_records import properties as joined_properties
from .parsers import Parser, same, text_of
from .protocol import _streams as frame_streams

_MAX_FRAME: Final = 4096
_PROPERTIES: Final = {"own": "bigint", "SPARK_DEDUP_ID": "boolean"}
_COLUMNS: Final = (*SOURCE_COLUMNS, *_PROPERTIES)
_DEDUP: Final = "SPARK_DEDUP_ID"


def _frames(data: bytes) -> object:
    """As ``FrameDecoder`` cuts them."""
    buffer, found = FrameBuffer(1 << 14, _MAX_FRAME), []
    try:
        for at in range(0, len(data), 700):
            part = data[at : at + 700]
            while part:
                room = buffer.get_buffer()
                some, part = part[: len(room)], part[len(room) :]
                room[: len(some)] = some
                found += [
                    (form, header, bytes(body.view))
                    for form, header, body in buffer.buffer_updated(len(some))
                ]
    except FrameError:
        return "broken"
    rest = data[sum(8 + len(header) + len(body) for _, header, body in found) :]
    if 4 <= len(rest) < 8 and not 4 <= int.from_bytes(rest[:4], "big") <= _MAX_FRAME - 4:
        return "broken"  # which this one sees when it has all eight bytes
    return found


def _frames_of_decoder(data: bytes) -> object:
    decoder = FrameDecoder(_MAX_FRAME)
    try:
        return [(form, header, bytes(body)) for form, header, body in decoder.feed(data)]
    except FrameError:
        return "broken"


# --- records to columns


def _options(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The first byte chooses them."""
    chosen = data[0] if data else 0
    return {
        "broker_name": "b",
        "check_crc": bool(chosen & 1),
        "fail_on_damage": not chosen & 2,
        "decompress": not chosen & 4,
        "from_ms": 1_700_000_000_000 if chosen & 8 else None,
        "keep_tags": frozenset({"TagA"}) if chosen & 16 else None,
        "drop_ids": set() if chosen & 32 else None,
        "until_offset": 5 if chosen & 64 else None,
        "most_bytes": 200 if chosen & 128 else 8 << 20,
        "properties": PropertyColumns(_PROPERTIES),
    }, data[1:]


def _columns(data: bytes) -> object:
    options, rest = _options(data)
    batches = decode_records(rest, _COLUMNS, DecodeOptions(**options))
    return _plain(pa.concat_batches(list(batches)))


def _rows(data: bytes) -> object:
    options, rest = _options(data)
    rows = list(read_rows(rest, DecodeOptions(**options)))
    return _plain(rows_to_batch(rows, _COLUMNS, options["properties"]))


def _plain(batch: Any) -> list[Any]:
    """Times as numbers: Python's have no years above 9999."""
    return [
        (pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]


def _stored() -> Iterator[bytes]:
    text = joined_properties(UNIQ_KEY="U", TAGS="TagA", KEYS="a b", SPARK_DEDUP_ID="x", own="é")
    packed, bits = compressed(b"x" * 99, int(MessageSysFlag.COMPRESSION_ZLIB))
    batch = encode_batch([BatchItem(0, b"one", text), BatchItem(1, b"two", b"")])
    inner = int(MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP)
    yield b"\0" + joined(Stored(properties=text), Stored(body=packed, sys_flag=bits))
    yield b"\1" + joined(Stored(long_topic=True), Stored(sys_flag=0x30, properties=text))
    yield b"\2" + joined(Stored(body=batch, sys_flag=inner, properties=text), Stored())
    yield b"\x7f" + joined(*(Stored(queue_offset=n, properties=text) for n in range(7)))


# --- columns to messages


def _sink(data: bytes) -> object:
    """Rows are lines ``body TAB keys TAB tags TAB name=value``; what was encoded is decoded."""
    rows = [[*line.split(b"\t", 3), b"", b"", b""][:4] for line in data.split(b"\n")[:50]]
    texts = [[text_of(cell) for cell in row] for row in rows]
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([row[0] for row in rows], pa.binary()),
            "keys": pa.array([[row[1]] if row[1] else None for row in texts], _LIST),
            "tags": pa.array([row[2] or None for row in texts], pa.string()),
            "properties": pa.array(
                [[tuple((row[3] + "=").split("=")[:2])] if row[3] else [] for row in texts], _MAP
            ),
        }
    )
    ids = pa.array([b"%032d" % number for number in range(len(rows))], pa.binary())
    found = encode_items(batch, ("", ids), (_DEDUP, ids))
    items = decode_batch(b"".join(found.items.to_pylist()))
    same([item.body for item in items], [row[0] for row in rows], "bodies")
    return [item.properties for item in items]


_LIST: Final = pa.list_(pa.string())
_MAP: Final = pa.map_(pa.string(), pa.string())


# --- options


def _given(data: bytes) -> dict[str, str]:
    """Lines ``name=value``."""
    pairs = (line.partition("=") for line in text_of(data).split("\n"))
    return {name: value for name, _, value in pairs if name}


def _source_options(data: bytes) -> object:
    return parse_source_options(_given(data), streaming=False, environment={})


def _stream_options(data: bytes) -> object:
    return parse_source_options(_given(data), streaming=True, environment={"SECRET": "s"})


def _sink_options(data: bytes) -> object:
    return parse_sink_options(_given(data), {})


def _store_options(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "commitlog").mkdir()
        (Path(folder) / "commitlog" / ("0" * 20)).write_bytes(b"")
        return len(parse_store_options({**_given(data), "path": folder}).columns)


def _offsets(data: bytes) -> object:
    values = parse_queue_values("startingOffsets", text_of(data))
    parse_version(text_of(data))
    return values


def _assignment(data: bytes) -> object:
    return parse_assignment("assign", text_of(data))


def _checkpoint(data: bytes) -> object:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found = from_json(table)
    same(from_json(to_json(found)), found, "written and read again")
    return found


def _checkpoint_seeds() -> list[bytes]:
    one, two = MessageQueue("t", "b", 0), MessageQueue("t", "b", 10)
    offsets = {one: 5, two: 7}
    marks = {one: Mark(4, 8), two: Mark(6, 9, is_gone=True)}
    second = Checkpoint(offsets, Origin(9, frozenset("b")), {two: 3}, marks)
    return [json.dumps(to_json(each)).encode() for each in (Checkpoint(offsets), second)]


def _staged(data: bytes) -> object:
    """The bytes as a file of rows, and as the decision about a batch."""
    with tempfile.TemporaryDirectory() as name:
        folder = folder_of(name)
        batches = Batches(folder)
        (Path(name) / "0").mkdir()
        for file in ("part-0", "0/manifest.json"):
            (Path(name) / file).write_bytes(data)
        try:
            return batches.manifest(0)
        except StagingError:
            return list(staged_chunks(folder, "part-0"))


def _staged_seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as name:
        rows = StagedRows(folder_of(name), "q", "part-0")
        rows.put(Chunk("T", MessageQueue("T", "b", 1), memoryview(b"body"), 2, "a\x01b", 3, True))
        rows.put(Chunk("T", None, memoryview(b"other"), 1))
        rows.finish()
        yield (Path(name) / "part-0").read_bytes()
        decided = Manifest(
            batch=0,
            producer_id="p",
            begun_ms={"b": 1},
            queues={"T": [("b", 0)]},
            files=["part-0"],
            rows=3,
        )
        Batches(folder_of(name)).decide(decided)
        yield (Path(name) / "0" / "manifest.json").read_bytes()


def _seen(data: bytes) -> object:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found = seen.from_json(table)
    same(seen.from_json(seen.to_json(found)), found, "written and read again")
    return found


def _seen_seeds() -> list[bytes]:
    full = Seen({MessageQueue("t", "b", 0): 5}, "RocketMQ[Subscribe[t]]", 1, 9, frozenset("b"))
    return [json.dumps(seen.to_json(each)).encode() for each in (Seen(full.latest), full)]


_SOURCE: Final = (
    b"nameServer=10.0.0.1:9876\nsubscribe=a,b\nstartingOffsets=earliest\nendingOffsets=latest\n"
    b"pullBatchSize=32\nmaxTriggerDelay=15m\npullMaxBytes=8m\nsubExpression=TagA || TagB\n"
    b"rocketmq.accessKey=k\nrocketmq.secretKey=s\ncolumns=body,keys"
)
_SINK: Final = (
    b"nameServer=10.0.0.1:9876\ntopic=T\nsendTimeoutMs=10s\nbatchBytes=64k\nmaxInFlight=3\n"
    b"dedupId=false\norderly=yes\nreservedProperties=drop"
)


# --- stores


def _store(data: bytes) -> object:
    """The first byte: how it is read; the second: which file begins with the rest."""
    how, which = (data + b"\0\0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        store = WrittenStore(Path(folder) / "broker-a", _some_records())
        paths = sorted(path for path in store.root.rglob("*") if path.is_file())
        path = paths[which % len(paths)]
        old = path.read_bytes()
        path.write_bytes((data[2:] + old[len(data[2:]) :])[: len(old)])
        options = parse_store_options(
            {
                "path": str(store.root), "columns": ",".join(_COLUMNS),
                "propertyColumns": ",".join(map(":".join, _PROPERTIES.items())),
                "partitionBy": "queue" if how & 1 else "file",
                "failOnDamage": "true" if how & 2 else "false",
            }
        )  # fmt: skip
        return sum(batch.num_rows for part in plan(options) for batch in read_part(part, options))


def _some_records() -> list[Stored]:
    return [
        Stored(body=bytes([number]) * 100, queue_id=number % 2, store_timestamp=1_700_000_000_000)
        for number in range(12)
    ]


def _store_seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        store = WrittenStore(Path(folder) / "broker-a", _some_records())
        paths = sorted(path for path in store.root.rglob("*") if path.is_file())
        for number, path in enumerate(paths[:3]):
            yield bytes([number % 4, number]) + path.read_bytes().rstrip(b"\0")


_S: Final = "spark_connector/"
_FRAME: Final = "remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES"
_SLOW: Final = _S + "decode/decode_slow.py: "
_AUTHOR: Final = "options of a query, which its author writes"

PARSERS: Final = (
    Parser(
        "frames-of-spark",
        (_S + "access/frame_buffer.py: FrameBuffer.buffer_updated",),
        (_FRAME,),
        _frames,
        twin=_frames_of_decoder,
        seeds=frame_streams,
    ),
    Parser(
        "columns",
        (
            _S + "decode/decode.py: decode_records",
            _S + "decode/decode.py: decode_found",
            _S + "decode/decode.py: _unpacked",
            _S + "decode/arrow_arrays.py: from_texts",
            _S + "decode/property_columns.py: read_text",
            "remoting/protocol/record/scan.py: scan_stretches",
            _SLOW + "read_rows",
            _SLOW + "_read_record",
            _SLOW + "_unpack",
            _SLOW + "unpack_body",
            _SLOW + "_unpack_by_arrow",
        ),
        (_FRAME, "spark_connector/decode/decode_slow.py: MAX_BODY_BYTES"),
        _columns,
        (DecodeError, DamagedMessageError),
        twin=_rows,
        bytes_per_byte=600,
        base_bytes=1 << 20,
        seeds=_stored,
    ),
    Parser(
        "columns-of-the-sink",
        (_S + "sink/encode.py: encode_items",),
        ("remoting/protocol/message/properties.py: MAX_PROPERTIES_BYTES",),
        _sink,
        (MessageError,),
        bytes_per_byte=600,
        base_bytes=1 << 20,
        seeds=lambda: [b"body\tkey one\ttag\ta=b\nx", b"b"],
    ),
    Parser(
        "options-of-the-source",
        (
            _S + "access/options.py: parse_source_options",
            _S + "access/connection_options.py: read_connection",
            _S + "access/connection_options.py: _read_credentials",
        ),
        (),
        _source_options,
        (ConfigError,),
        bytes_per_byte=1200,
        seeds=lambda: [_SOURCE],
        bounded_by=_AUTHOR,
    ),
    Parser(
        "options-of-streams",
        (_S + "access/options.py: parse_source_options",),
        (),
        _stream_options,
        (ConfigError,),
        bytes_per_byte=1200,
        seeds=lambda: [_SOURCE.replace(b"\nendingOffsets=latest", b"")],
        bounded_by=_AUTHOR,
    ),
    Parser(
        "options-of-the-sink",
        (_S + "sink/sink_options.py: parse_sink_options",),
        (),
        _sink_options,
        (ConfigError,),
        bytes_per_byte=1200,
        seeds=lambda: [_SINK],
        bounded_by=_AUTHOR,
    ),
    Parser(
        "options-of-stores",
        (_S + "store/store_options.py: parse_store_options",),
        (),
        _store_options,
        (ConfigError,),
        bytes_per_byte=1200,
        opens_files=True,
        seeds=lambda: [
            b"partitionBy=queue\nsubscribe=a,b\nstartingTimestamp=5\nsubExpression=TagA"
        ],
        bounded_by=_AUTHOR,
    ),
    Parser(
        "offsets-of-queries",
        (
            _S + "access/offsets.py: parse_queue_values",
            _S + "access/offsets.py: _load",
            _S + "session/java.py: parse_version",
        ),
        (_S + "access/offsets.py: _MAX_OFFSET", _S + "access/offsets.py: _MAX_QUEUE_ID"),
        _offsets,
        (ConfigError,),
        bytes_per_byte=600,
        seeds=lambda: [b'{"t":{"b":{"0":5,"1":-2}}}', b'{"t":{"0":7}}'],
    ),
    Parser(
        "assignments",
        (_S + "access/offsets.py: parse_assignment",),
        (_S + "access/offsets.py: _MAX_QUEUE_ID",),
        _assignment,
        (ConfigError,),
        bytes_per_byte=600,
        seeds=lambda: [b'{"t":{"b":[0,1]}}', b'{"t":[3]}'],
    ),
    Parser(
        "checkpoints-of-spark",
        (_S + "access/checkpoint.py: from_json", _S + "access/offsets.py: from_json"),
        (_S + "access/offsets.py: _MAX_OFFSET",),
        _checkpoint,
        (ConfigError,),
        bytes_per_byte=600,
        seeds=_checkpoint_seeds,
    ),
    Parser(
        "staged-rows",
        (
            _S + "sink/staging.py: staged_chunks",
            _S + "sink/staging.py: Folder.read",
            _S + "sink/manifest.py: Batches.manifest",
        ),
        (_S + "sink/staging.py: _MOST_HEAD_BYTES",),
        _staged,
        (StagingError,),
        bytes_per_byte=300,
        base_bytes=8 << 20,
        opens_files=True,
        seeds=_staged_seeds,
    ),
    Parser(
        "progress-of-spark",
        (_S + "access/seen.py: from_json",),
        (_S + "access/offsets.py: _MAX_OFFSET",),
        _seen,
        (ConfigError,),
        bytes_per_byte=600,
        seeds=_seen_seeds,
    ),
    Parser(
        "stores-of-spark",
        (
            _S + "store/store_reader.py: read_part",
            _S + "store/store_log_file.py: read_log_file",
            _S + "store/store_queue.py: read_queue",
            _S + "store/store_queue.py: _read",
        ),
        ("remoting/protocol/record/layout.py: MOST_SIZE",),
        _store,
        (StoreDamageError, DamagedMessageError, DecodeError, OSError),
        bytes_per_byte=600,
        base_bytes=16 << 20,
        opens_files=True,
        seeds=_store_seeds,
    ),
)
