"""``python -m tests.remoting.protocol.leaves.fuzz``: millions of mutated inputs into the leaves and
into their twins.

Every input is a known good one of which some bytes were changed, put in, taken out or doubled. What
a leaf makes of it has to be what its twin makes of it; under ``make sanitize`` AddressSanitizer
watches where it reads and writes meanwhile. The first difference ends the run with the seed and the
input.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from struct import pack
from typing import Any, Final, NamedTuple

from msgspec import structs

from aiorocketmq.remoting.errors import ProtocolError
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves import (
    TWINS,
    _compiled,
    pure_answers,
    pure_checksums,
    pure_frames,
    pure_index,
)
from aiorocketmq.remoting.protocol.message.index_keys import TopicPrefixes
from aiorocketmq.remoting.protocol.record import Records, pull
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.record.batch_items import join_items
from aiorocketmq.remoting.protocol.record.batch_records import batch_size
from aiorocketmq.remoting.protocol.record.entries import entries_json, entry_checksums, entry_units
from aiorocketmq.remoting.protocol.record.entry import entry_head
from aiorocketmq.remoting.protocol.record.property_pairs import property_columns
from aiorocketmq.remoting.protocol.record.stored_properties import stored_properties
from aiorocketmq.remoting.protocol.record.units import believed_units, queue_runs
from aiorocketmq.remoting.protocol.signed import signed_of
from aiorocketmq.remoting.protocol.wire import FieldError, from_fields, from_texts
from aiorocketmq.remoting.responses import read_answer

from ....fuzzing.mutation import mutated
from ..test_record import sample
from ..test_record_verdict import V6, with_zeros

MILLION: Final = 1_000_000
_TYPES: Final = {int(code): command.request for code, command in COMMANDS.items()}
_PREFIXES: Final = TopicPrefixes()
_PROPERTIES: Final = "UNIQ_KEY\x017F000001\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01one two é"
_SEND: Final = {
    "a": "group", "b": "Topic", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000",
    "h": "0",
    "i": _PROPERTIES, "j": "0", "k": "false", "m": "true", "n": "broker", "AccessKey": "rocketmq2",
    "Signature": "c2lnbmVk",
}  # fmt: skip
_PULL: Final = {
    "consumerGroup": "group", "topic": "Topic", "queueId": "3", "queueOffset": "100000",
    "maxMsgNums": "32", "sysFlag": "6",
    "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*",
    "subVersion": "1700000000000",
}  # fmt: skip


class Target(NamedTuple):
    """A leaf as a function of bytes."""

    name: str
    share: int
    """Of a hundred inputs."""
    seeds: Sequence[bytes]
    leaf: Callable[[bytes], Any]
    twin: Callable[[bytes], Any]
    none_is_left_alone: bool = False
    """A ``None`` of the leaf says: ask the general rule."""


def _general(form: int) -> Callable[[bytes], Any]:
    def read(header: bytes) -> Any:
        try:
            command = decode_header(form, header)
            fields = from_texts(_TYPES[command.code], command.ext_fields or {})
        except (HeaderError, FieldError, KeyError):
            return "refused"
        return (
            "an answer"
            if command.is_response
            else (command.code, command.opaque, command.flag, command.version, fields)
        )

    return read


def _signed(form: int) -> Callable[[bytes], Any]:
    def read(header: bytes) -> Any:
        try:
            return signed_of(decode_header(form, header).ext_fields or {})
        except HeaderError:
            return "refused"

    return read


def _headers(form: int) -> list[bytes]:
    commands = [
        RemotingCommand(code=code, opaque=7, ext_fields=fields)
        for code, fields in (
            (310, _SEND),
            (11, _PULL),
            (34, {}),
            (15, {**_PULL, "commitOffset": "-1"}),
        )
    ]
    found = [encode_header(command, form) for command in commands]
    if form == 0:
        values = {
            "opaque": -5,
            "extFields": _SEND,
            "remark": "why",
            "version": 0,
            "code": 310,
            "language": "CPP",
        }
        found += [
            json.dumps(values, indent=1).encode(),
            json.dumps(values, ensure_ascii=False).encode(),
        ]
    return found


_STORED: Final = {
    "msgId": "7F00000100002A9F000000000000002A", "queueId": "3", "queueOffset": "987654",
    "transactionId": "T",
    "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
}  # fmt: skip


def _stored(header: bytes) -> Any:
    """By the general rules."""
    try:
        answer = read_answer(0, header)
        if answer is None or answer.code:
            return "no good answer"
        answer = structs.replace(answer, request_code=310)
        return answer.opaque, from_fields(SendMessageResponse, answer.ext_fields)
    except (FieldError, ProtocolError):
        return "refused"


def _answers() -> list[bytes]:
    values = {
        "opaque": -5,
        "extFields": _STORED,
        "remark": "why",
        "version": 0,
        "code": 0,
        "flag": 1,
    }
    usual = RemotingCommand(code=0, flag=1, opaque=7, ext_fields=_STORED)
    return [encode_header(usual, 0), json.dumps(values, indent=1).encode()]


def _plain_frames(found: tuple[list[Any], int, int]) -> Any:
    return [(form, header, bytes(body)) for form, header, body in found[0]], *found[1:]


def _entries(kind: Callable[[], Any]) -> Callable[[bytes], Any]:
    def entries(data: bytes) -> Any:
        keys = kind()
        keys.add("T", data, 1, 2, 0)
        keys.add("T", data, 3, 4, 0)
        return [[*column, *more] for column, more in zip(keys.take(1), _all_of(keys), strict=True)]

    return entries


def _filled(template: Any) -> Callable[[bytes], bytes]:
    made = template(
        1,
        [
            b"\0",
            ("i", 0),
            "(",
            b"key",
            "(",
            ("b", 1),
            ")",
            ("b", 1),
            ")",
            ("d", 2),
            b"%d",
            ("X", 3),
        ],
    )

    def fill(data: bytes) -> bytes:
        number = int.from_bytes(data[:8], "big") >> 1
        return bytes(made.fill((-number & 0x7FFFFFFF, data, -number, number), len(data)))

    return fill


def _headed(of: Any) -> Callable[[bytes], bytes]:
    made = of.FrameTemplate(0, [b'{"i":', ("s", 0), b',"n":', ("d", 1), ("s", 0)])
    return lambda data: made.header((data.decode("utf-8", "replace"), len(data)))


def _scanned(scan_columns: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: scan_columns(data, 0, None, len(data) + 700, True, True, None)


def _some_entries() -> bytes:
    """From index 7 and position 5000 on."""
    found = b""
    for number, body in enumerate((b"a", b"", bytes(90))):
        record = sample(phy_offset=5000 + len(found) + 48, body=body)
        found += entry_head(7 + number, 3 + number, 5000 + len(found), len(record)) + record
    return found


_BELIEVED = tuple(leaf.__name__ for leaf in (entry_units, entries_json, entry_checksums))


def _entries_of(
    scan_columns: Callable[..., Any], *believed: Callable[..., Any]
) -> Callable[[bytes], Any]:
    """``believed``: leaves that go by the heads."""

    def read(data: bytes) -> Any:
        first = int.from_bytes(data[8:16], "big", signed=True)
        return (
            scan_columns(data, 0, None, len(data) + 700, True, True, (-1, -1)),
            scan_columns(data, 0, 5000, len(data), False, False, (7, 3)),
            [leaf(data, 0, len(data), first, 5000) for leaf in believed],
        )

    return read


def _in_stretches(stretch_columns: Callable[..., Any]) -> Callable[[bytes], Any]:
    """What the first record says of its size is where the second stretch begins; the last one ends
    behind the data."""

    def read(data: bytes) -> Any:
        size = int.from_bytes(data[:4], "big") % (len(data) + 1)
        return stretch_columns(data, [0, size, size // 2], [size, len(data), len(data) + 9], True)

    return read


def _messages(read_records: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: read_records(data, 0, 1 << 20, lambda *fields: fields, "broker")


def _of_records(runs: Callable[..., Any], entries: Callable[..., Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        names, columns = _compiled.scan_columns(data, 0, None, len(data), False, False, None)
        records = Records(data, names, *columns)
        return runs(records), entries(records, [_PREFIXES[name] for name in names], 0, 9)

    return read


def _paired(property_columns: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Three strings of one buffer."""

    def read(data: bytes) -> Any:
        edges = [len(data) * number // 3 for number in range(4)]
        strings = data, array("q", edges[:3]), array("q", edges[1:])
        return property_columns(*strings, [b"KEYS", b"a", b"TAGS"], True)

    return read


def _joined(join_items: Callable[..., Any]) -> Callable[[bytes], Any]:
    """In front where texts begin and end, bodies as well as those of a piece."""

    def join(data: bytes) -> Any:
        edges = array("i", [*data[:8]])
        pieces = [b"UNIQ_KEY\x01", range(data[0], data[0] + 7), (data[9:12], edges, data)]
        try:
            return join_items(edges, data[8:], array("i", range(7)), pieces)
        except ValueError as error:
            return str(error)

    return lambda data: join(data.ljust(12))


def _pulled(*leaves: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Units in front, records behind."""
    survey_units, join_records, records_fit = leaves

    def pulled(data: bytes) -> Any:
        units, shown = data[:60], memoryview(data)[60:]
        found = survey_units(units, 3, 250, frozenset({0}))
        if found is None:
            return None
        joined = join_records(shown, 7, units, found[0])
        return found, joined, records_fit(shown if joined is None else joined, units, found[0])

    return lambda data: pulled(data.ljust(60))


def _chained(chain_items: Callable[..., Any]) -> Callable[[bytes], Any]:
    columns = (
        array("i", [3, 10, 3, 2**31 - 1]),
        array("q", [1, 2, 3, -4]),
        array("q", [4, 5, 2**62, 7]),
    )

    def chain(data: bytes) -> Any:
        slots = bytearray(b"slot" + data)
        return chain_items(slots, 1 + len(data), 0, *columns), slots

    return chain


def found_of(request: Any, code: int, opaque: int, flag: int, version: int, *_given: Any) -> Any:
    """As the general rule has it."""
    return code, opaque, flag, version, request


def _text(rewrite: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: rewrite(b"CLUSTER\x01c", data.decode("utf-8", "replace"))


compiled_leaf: Final = partial(getattr, _compiled)
KEYS: Final = (pure_index.KeyEntries, _compiled.KeyEntries)


def _all_of(keys: Any) -> Any:
    """The twin gives them away in pieces."""
    columns = [*map(list, keys.take(1 << 30))]
    while keys:
        columns = [
            [*column, *more] for column, more in zip(columns, keys.take(1 << 30), strict=True)
        ]
    return columns


def _ends(kind: Callable[[str], Any], size: int) -> tuple[Any, Any]:
    """Of a log and a queue; ``kind`` finds a leaf by its name."""
    log, queue = kind("LogEnd")(), kind("QueueEnd")()
    log.buffer, queue.buffer, queue.topic_field = bytearray(size), bytearray(20), b"\x01T"
    log.limit, queue.limit, log.max_body, log.max_record = size, 20, 1 << 30, 1 << 30
    return log, queue


def _written(kind: Callable[[str], Any]) -> Callable[[bytes], Any]:
    def write(data: bytes) -> Any:
        log, queue = _ends(kind, 2 * len(data) + 93)
        keys = KEYS[kind is compiled_leaf]()
        placed = kind("put_record")(log, queue, keys, data, data, 4, 0, 5, bytes(8), 6, 7, 8, 9)
        return placed, log.buffer, queue.buffer, log.position, queue.max_offset, _all_of(keys)

    return write


def _batched(kind: Callable[[str], Any]) -> Callable[[bytes], Any]:
    def write(data: bytes) -> Any:
        measured, shared = kind(batch_size.__name__)(data, b"CLUSTER\x01c"), b"CLUSTER\x01c"
        if measured is None:
            return None
        log, queue = _ends(kind, measured[1] + 92 * measured[0])
        keys = KEYS[kind is compiled_leaf]()
        put = kind("put_batch")(log, queue, keys, 0, 7, data, 0, shared, 0, 5, bytes(8), 6, 1)
        return put, log.buffer, _all_of(keys)

    return write


def targets() -> list[Target]:
    """One for each leaf."""
    compiled = _compiled
    headers = compiled.Headers(_TYPES, found_of)
    read, signed = headers.read, headers.signed
    stored = compiled.Replies(SendMessageResponse).read
    stream = b"".join(
        pack(">II", 4 + h + b, h) + b"h" * h + b"b" * b
        for h, b in ((3, 0), (0, 9), (20, 2049), (5, 1))
    )
    units = b"".join(pack(">qiq", 1000 * n, 1000, n) for n in range(9))
    records = [
        sample(),
        V6,
        with_zeros(1536, 1701),
        sample(topic="other", properties=_PROPERTIES.encode(), queue_id=7),
    ]
    items = [
        BatchItem(n, b"body" * n, text)
        for n, text in enumerate((b"", _PROPERTIES.encode(), b"a\x01b\x02"))
    ]
    several = [*records, b"".join(records)]
    pulled = b"".join(pack(">qiq", at, 97, 0) for at in (7, 104, 104)) + sample() * 2
    pull_leaves = pull.survey_units, pull.join_records, pull.records_fit
    return [
        Target(
            "JSON headers", 15, _headers(0), lambda data: read(0, data, 0, None), _general(0), True
        ),
        Target(
            "binary headers",
            12,
            _headers(1),
            lambda data: read(1, data, 0, None),
            _general(1),
            True,
        ),
        Target(
            "what is signed, JSON", 7, _headers(0), lambda data: signed(0, data), _signed(0), True
        ),
        Target(
            "what is signed, binary", 4, _headers(1), lambda data: signed(1, data), _signed(1), True
        ),
        Target(
            "frames",
            10,
            [stream[:60], stream],
            lambda data: _plain_frames(compiled.split_frames(data, 0, 4000, 15)),
            lambda data: _plain_frames(pure_frames.split_frames(data, 0, 4000, 15)),
        ),
        Target("CRC", 1, [bytes(range(256)), b"x" * 15], compiled.crc32, pure_checksums.crc32),
        Target(
            "answers",
            5,
            [b"12345678"],
            _filled(compiled.FrameTemplate),
            _filled(pure_answers.FrameTemplate),
        ),
        Target(
            "headers with texts",
            3,
            [_PROPERTIES.encode()],
            _headed(compiled),
            _headed(pure_answers),
        ),
        Target("headers of answers", 5, _answers(), lambda data: stored(0, data), _stored, True),
        Target(
            "index entries",
            5,
            [_PROPERTIES.encode()],
            _entries(compiled.KeyEntries),
            _entries(pure_index.KeyEntries),
        ),
        Target(
            "chains",
            2,
            [bytes(20)],
            _chained(compiled.chain_items),
            _chained(pure_index.chain_items),
        ),
        Target(
            "units",
            5,
            [units],
            lambda data: compiled.believed_units(data, 91, 0, 4096),
            lambda data: TWINS[believed_units.__name__](data, 91, 0, 4096),
        ),
        Target(
            "records", 10, several, _scanned(compiled.scan_columns), _scanned(TWINS["scan_columns"])
        ),
        Target(
            "entries of a log",
            5,
            [_some_entries()],
            _entries_of(compiled.scan_columns, *(getattr(compiled, name) for name in _BELIEVED)),
            _entries_of(TWINS["scan_columns"], *(TWINS[name] for name in _BELIEVED)),
        ),
        Target(
            "stretches",
            5,
            several,
            _in_stretches(compiled.stretch_columns),
            _in_stretches(TWINS["stretch_columns"]),
        ),
        Target(
            "pairs of properties",
            5,
            [f"{_PROPERTIES}\x02a\x01b\x02{_PROPERTIES}".encode()],
            _paired(compiled.property_columns),
            _paired(TWINS[property_columns.__name__]),
        ),
        Target(
            "items of a batch",
            5,
            [bytes([0, 2, 2, 9, 11, 20, 40, 60]) + b"KEYS" * 20],
            _joined(compiled.join_items),
            _joined(TWINS[join_items.__name__]),
        ),
        Target(
            "pulls",
            2,
            [pulled],
            _pulled(*pull_leaves),
            _pulled(*(TWINS[leaf.__name__] for leaf in pull_leaves)),
        ),
        Target(
            "messages",
            5,
            several,
            _messages(compiled.read_records),
            _messages(TWINS["read_records"]),
        ),
        Target(
            "units and entries of records",
            5,
            several,
            _of_records(compiled.queue_runs, compiled.record_entries),
            _of_records(TWINS[queue_runs.__name__], pure_index.record_entries),
        ),
        Target(
            "properties to store",
            5,
            [f"{_PROPERTIES}\x02DELAY\x010\x02TRAN_MSG\x01false".encode()],
            _text(compiled.stored_properties),
            _text(TWINS[stored_properties.__name__]),
        ),
        Target(
            "records to write", 2, [bytes(50)], _written(compiled_leaf), _written(TWINS.__getitem__)
        ),
        Target(
            "batches",
            5,
            [encode_batch(items)],
            _batched(compiled_leaf),
            _batched(TWINS.__getitem__),
        ),
    ]


def run(inputs: int, seed: int) -> int:
    """The exit code."""
    for target in targets():
        chance = random.Random(f"{seed} {target.name}")
        count, began, answered = inputs * target.share // 100, time.monotonic(), 0
        leaf, twin, seeds, left_alone = (
            target.leaf,
            target.twin,
            target.seeds,
            target.none_is_left_alone,
        )
        for number in range(count):
            data = mutated(seeds[number % len(seeds)], chance)
            found = leaf(data)
            if found is None and left_alone:
                continue
            answered += 1
            if found != (expected := twin(data)):
                print(
                    f"{target.name}, seed {seed}: {data!r}\n  compiled {found!r}\n  expected "
                    f"{expected!r}"
                )
                return 1
        seconds = time.monotonic() - began
        print(
            f"{target.name}: {count:,} inputs, {answered:,} compared, {seconds:.0f} s", flush=True
        )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10 * MILLION)
    parser.add_argument("--seed", type=int, default=random.randrange(MILLION))
    given = parser.parse_args()
    sys.exit(run(given.inputs, given.seed))
