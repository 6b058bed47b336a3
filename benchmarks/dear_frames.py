"""Frames that cost whoever serves them as much as can be: for every request the dearest ones that
its limits let through.

Names of what there is plenty of stand in ``State``; ``cost_world.py`` makes it. Deterministic.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.frame import MAX_FRAME_BYTES, pack_prefix
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.protocol.wire import fields_of

BIG_TOPIC: Final = "CostBig"
"""Has as many queues as a topic may have."""
TOPIC: Final = "Cost"
GROUP: Final = "CostGroup"
"""Has offsets in everything."""
BROKER: Final = "cost-broker"
CLUSTER: Final = "CostCluster"
_NUMBERS: Final = (0, -1, 2**31 - 1, 2**63 - 1)
_SPARED: Final = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    }  # whoever may send these may do anything
)
_MAX_BODY: Final = MAX_FRAME_BYTES - 4096


class DearFrame(NamedTuple):
    """``what`` says why it should be dear."""

    code: int
    what: str
    frame: bytes

    @property
    def name(self) -> str:
        return f"{RequestCode(self.code).name}: {self.what}"


def dear_frames(*, max_body: int = _MAX_BODY, values: bool = True) -> Iterator[DearFrame]:
    """All of them; no body is longer than ``max_body`` bytes. ``values``: also those that differ
    in the value of one field."""
    for code, command in COMMANDS.items():
        if code >= RequestCode.DLEDGER_METADATA:
            continue  # of members among themselves: strangers are refused before anything is read
        fields = {
            field.wire_name: _usual(field.wire_name, field.kind)
            for field in fields_of(command.request)
        }
        fields |= _OTHER_NAMES.get(code, {})
        yield DearFrame(code, "as usual, about what there is plenty of", _frame(code, fields))
        yield from _headers(code, fields, max_body)
        if values:
            yield from _values(code, fields)
        if code not in _SPARED:
            yield from _bodies(code, fields, max_body)
    yield from _registrations(max_body)


_OTHER_NAMES: Final = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: {"topic": "CostMade"},
    RequestCode.DELETE_TOPIC_IN_BROKER: {"topic": "CostMade"},
    RequestCode.DELETE_SUBSCRIPTIONGROUP: {"groupName": "CostMade"},
    RequestCode.UNREGISTER_BROKER: {"brokerName": "cost-gone", "brokerAddr": "cost-gone"},
}
"""What would take away that there is plenty of something."""


def _usual(name: str, kind: type) -> str:
    known = {
        "maxMsgNums": str(2**31 - 1), "maxNum": str(2**31 - 1), "count": str(2**31 - 1),
        "key": "key",
        "topicFilterType": "SINGLE_TAG", "perm": "6", "endTimestamp": str(2**63 - 1),
        "timestamp": str(2**62),
        "brokerName": BROKER, "bname": BROKER, "cluster": CLUSTER, "clusterName": CLUSTER,
        "subscription": "*",
        "expressionType": "TAG", "sysFlag": "4", "statsName": "GROUP_GET_NUMS",
        "statsKey": f"{TOPIC}@{GROUP}",
        "properties": "", "i": "", "topic": BIG_TOPIC, "b": TOPIC, "a": GROUP,
    }  # fmt: skip
    if name in known:
        return known[name]
    if kind is int:
        return "0"
    if kind is bool:
        return "false"
    return GROUP if "roup" in name else TOPIC


# --- headers
# --------------------------------------------------------------------------------------------------


def _headers(code: int, fields: dict[str, str], max_body: int) -> Iterator[DearFrame]:
    """Long ones in every form."""
    usual = json.dumps(fields)[1:-1]
    start = f'{{"code":{code},"opaque":1,"extFields":{{{usual}'.encode() + (b"," if usual else b"")
    for size, what in ((max_body, "a whole frame"), (240 << 10, "240 KiB")):
        yield _raw(code, f"keys, {what}", 0, start + _json_pairs(size) + b"}}")
        yield _raw(
            code,
            f"one long text, {what}",
            0,
            start + b'"x":"' + b"\\u0001" * (size // 6 - 10) + b'"}}',
        )
    yield _raw(
        code,
        "a header in fastjson's way",
        0,
        b"{'code':%d,opaque:1,extFields:{" % code + b"a:1," * 7000 + b"}}",
    )
    yield _raw(code, "deep", 0, start + b'"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}}")
    head, pairs = struct.pack(">hbhiii", code, 0, 0, 1, 0, 0), _binary_pairs(max_body)
    yield _raw(code, "keys in form 1", 1, head + struct.pack(">i", len(pairs)) + pairs)
    packed = b"\x97\xd1" + struct.pack(">h", code) + b"\xc0\x00\x01\x00\xc0"
    yield _raw(code, "keys in form 77", 0x4D, packed + _msgpack_pairs(max_body))


@functools.cache
def _json_pairs(size: int) -> bytes:
    return b",".join(b'"k%d":"1"' % number for number in range(size // 14))


@functools.cache
def _binary_pairs(size: int) -> bytes:
    keys = (b"%d" % number for number in range(size // 14))
    return b"".join(len(key).to_bytes(2, "big") + key + b"\x00\x00\x00\x011" for key in keys)


@functools.cache
def _msgpack_pairs(size: int) -> bytes:
    keys = [b"%d" % number for number in range(size // 14)]
    return (
        b"\xdf"
        + struct.pack(">I", len(keys))
        + b"".join(bytes((0xA0 | len(key),)) + key + b"\xa11" for key in keys)
    )


def _values(code: int, fields: dict[str, str]) -> Iterator[DearFrame]:
    """Extreme numbers in every field, long texts of the kinds that something might be looked for
    in."""
    texts = {
        "long": "x" * 200_000,
        "tags": "a||" * 2500,
        "many tags": "a||" * 60_000,
        "sql": " OR ".join(["a LIKE '%x%'"] * 100),
        "long sql": "(" * 4000 + "a" + ")" * 4000,
        "percent": "%" * 8000,
        "separators": "\x01\x02" * 30_000,
        "commas": ",;" * 90_000,
    }
    kinds = {
        field.wire_name: field.kind for field in fields_of(COMMANDS[RequestCode(code)].request)
    }
    for name, kind in kinds.items():
        if kind is int:
            for number in _NUMBERS:
                yield DearFrame(
                    code, f"{name}={number}", _frame(code, {**fields, name: str(number)})
                )
        elif kind is str:
            for what, text in texts.items():
                more = (
                    {"expressionType": "SQL92"}
                    if "sql" in what and "expressionType" in fields
                    else {}
                )
                yield DearFrame(
                    code, f"{name} is {what}", _frame(code, {**fields, **more, name: text})
                )
    for topic in (TOPIC, ""):
        if "topic" in fields:
            yield DearFrame(code, f"topic={topic!r}", _frame(code, {**fields, "topic": topic}))
    if code == RequestCode.UPDATE_AND_CREATE_TOPIC:
        most = {"readQueueNums": "65536", "writeQueueNums": "65536"}
        yield DearFrame(code, "65,536 queues", _frame(code, {**fields, **most}))


# --- bodies
# --------------------------------------------------------------------------------------------------


def _bodies(code: int, fields: dict[str, str], max_body: int) -> Iterator[DearFrame]:
    for what, body in (
        _common_bodies(max_body) if COMMANDS[RequestCode(code)].request_body is not None else ()
    ):
        yield DearFrame(code, what, _frame(code, fields, body))
    for what, body in {
        RequestCode.HEART_BEAT: _heartbeats,
        RequestCode.LOCK_BATCH_MQ: _locks,
        RequestCode.UNLOCK_BATCH_MQ: _locks,
        RequestCode.CHECK_CLIENT_CONFIG: _checks,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _groups,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _topic_lists,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _group_lists,
    }.get(RequestCode(code), lambda _max_body: ())(max_body):
        yield DearFrame(code, what, _frame(code, fields, body))
    if code == RequestCode.SEND_BATCH_MESSAGE:
        item = struct.pack(">iiiii", 22, 0, 0, 0, 0) + b"\x00\x00"
        yield DearFrame(
            code,
            "empty messages",
            _frame(code, fields, item * (min(max_body, 4 << 20) // len(item))),
        )


def _common_bodies(max_body: int) -> Iterator[tuple[str, bytes]]:
    yield "zeros", bytes(max_body)
    yield "numbers", b"[" + b"1," * (max_body // 2 - 2) + b"1]"
    yield "objects", b"[" + b"{}," * (max_body // 3 - 2) + b"{}]"
    yield "fastjson's way", b"{a:[" + b"{}," * 10_000 + b"]}"
    yield "references", b'{"mqSet":[' + b'{"$ref":"$"},' * 2000 + b"{}]}"
    yield "deep", b"[" * (max_body // 2) + b"]" * (max_body // 2)


def _topic_lists(max_body: int) -> Iterator[tuple[str, bytes]]:
    for size in (min(max_body, 1 << 20), max_body):
        topics = [{"topicName": f"CostListed{each}"} for each in range(size // 32)]
        yield f"{len(topics)} topics", _json({"topicConfigList": topics})


def _group_lists(max_body: int) -> Iterator[tuple[str, bytes]]:
    for size in (min(max_body, 1 << 20), max_body):
        groups = [{"groupName": f"CostListed{each}"} for each in range(size // 32)]
        yield f"{len(groups)} groups", _json({"groupConfigList": groups})


def _heartbeats(max_body: int) -> Iterator[tuple[str, bytes]]:
    def named(kind: str, number: int) -> bytes:
        return _json(
            {"clientID": "cost", kind: [{"groupName": f"{kind}{each}"} for each in range(number)]}
        )

    for number in (1000, 10_000, min(400_000, max_body // 40)):
        yield f"{number} producers", named("producerDataSet", number)
        yield f"{number} consumers", named("consumerDataSet", number)
    for number in (1000, 10_000, max_body // 60):
        topics = [{"topic": f"t{each}", "subString": "*"} for each in range(number)]
        consumer = {"groupName": "CostWide", "subscriptionDataSet": topics}
        yield (
            f"a consumer of {number} topics",
            _json({"clientID": "cost", "consumerDataSet": [consumer]}),
        )
    tags = {
        "topic": TOPIC,
        "subString": "a||" * 1000,
        "tagsSet": ["a"] * 100_000,
        "codeSet": list(range(100_000)),
    }
    consumer = {"groupName": "CostTags", "subscriptionDataSet": [tags]}
    yield "100,000 tags", _json({"clientID": "cost", "consumerDataSet": [consumer]})
    sql = [
        {
            "topic": f"t{each}",
            "expressionType": "SQL92",
            "subString": " OR ".join([f"a{each} > 5"] * 200),
        }
        for each in range(20)
    ]
    consumer = {"groupName": "CostSql", "subscriptionDataSet": sql}
    yield "20 long expressions", _json({"clientID": "cost", "consumerDataSet": [consumer]})


def _locks(max_body: int) -> Iterator[tuple[str, bytes]]:
    for number in (300, 1000, 10_000, 100_000):
        queues = [
            {"topic": TOPIC, "brokerName": BROKER, "queueId": each}
            for each in range(min(number, max_body // 60))
        ]
        yield (
            f"{number} queues",
            _json({"consumerGroup": GROUP, "clientId": "cost", "mqSet": queues}),
        )


def _checks(_max_body: int) -> Iterator[tuple[str, bytes]]:
    for text in ("(" * 60 + "a" + ")" * 60, " OR ".join(["a LIKE '%x%'"] * 250), "a||" * 100_000):
        wanted = {"topic": TOPIC, "subString": text, "expressionType": "SQL92"}
        yield (
            f"{text[:10]}...",
            _json({"clientId": "c", "group": GROUP, "namespace": "", "subscriptionData": wanted}),
        )


def _groups(_max_body: int) -> Iterator[tuple[str, bytes]]:
    yield "65,536 retry queues", _json({"groupName": "CostRetry", "retryQueueNums": 65536})


def _registrations(max_body: int) -> Iterator[DearFrame]:
    """Of topics as small as can be, plain and packed."""
    code = RequestCode.REGISTER_BROKER
    fields = {
        "brokerName": "cost-new",
        "brokerAddr": "h:1",
        "clusterName": "c",
        "haServerAddr": "h:2",
        "brokerId": "0",
    }
    for number in (100_000, 200_000, 1_500_000):
        line = [f"t{each} 1 1 6 SINGLE_TAG".encode() for each in range(number)]
        packed = b"".join(struct.pack(">i", len(each)) + each for each in line)
        plain = (
            struct.pack(">i", 2)
            + b"{}"
            + struct.pack(">i", number)
            + packed
            + struct.pack(">i", 2)
            + b"[]"
        )
        body = zlib.compress(plain, 1)
        if len(body) <= max_body:
            what = f"{number} topics, packed"
            yield DearFrame(
                code, what, _frame(code, {**fields, "brokerName": what, "compressed": "true"}, body)
            )
    for number in (100_000, 200_000, max_body // 30):
        topics = b",".join(b'"t%d":{"topicName":"t%d"}' % (each, each) for each in range(number))
        body = (
            b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicConfigTable":{'
            + topics
            + b"}}}"
        )
        if len(body) <= max_body:
            what = f"{number} topics"
            yield DearFrame(code, what, _frame(code, {**fields, "brokerName": what}, body))
            yield DearFrame(
                code, f"{what}, the last is none", _frame(code, fields, body[:-3] + b',"x":0}}}')
            )
    bomb = zlib.compress(bytes(1 << 30 if max_body > 1 << 20 else 1 << 26), 9)
    yield DearFrame(code, "a bomb", _frame(code, {**fields, "compressed": "true"}, bomb))


def _frame(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    header = encode_header(RemotingCommand(code=code, opaque=1, ext_fields=fields))
    return pack_prefix(4 + len(header) + len(body), len(header)) + header + body


def _raw(code: int, what: str, form: int, header: bytes) -> DearFrame:
    return DearFrame(code, what, pack_prefix(4 + len(header), form << 24 | len(header)) + header)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
