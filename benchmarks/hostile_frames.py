"""Frames that a broken or hostile peer might send: every request, well made, and what mutations
make of it.

Deterministic: the same ``random.Random`` gives the same frames. Seeds are made from the table of
commands, so that every request is there; captured frames can be added.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, pack_prefix
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import fields_of

NAMES: Final = (
    "Fuzz",
    "FuzzGroup",
    "%RETRY%FuzzGroup",
    "TBW102",
    "BenchmarkTest",
    "SCHEDULE_TOPIC_XXXX",
)
NUMBERS: Final = (
    -1,
    0,
    1,
    3,
    255,
    -(2**31),
    2**31 - 1,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
    1e308,
    0.5,
)
TEXTS: Final = (
    "", " ", "null", "true", "\u0000", "/", "..", "../../etc", "ünïcödé", "\ud83d\ude00",
    "\u0001\u0002", "a" * 300,
    "x" * 100_000, "0" * 5000, "NaN", "-0", "1e3", "{}", '"', "%s%n", "\u2028",
)  # fmt: skip
BODIES: Final = (
    b"", b"\x00", b"{", b"null", b"[]", b"{}", b'"', b"[" * 5000, b'{"a":' * 5000,
    b'{"a":"\\ud800"}', b"\xff\xfe",
    b'{"$ref":"$"}', b'{"mqSet":[{"$ref":"$.mqSet"}]}', b"x" * 70_000, b"{{}:{}}", b"1e999",
    b"-" * 100,
)  # fmt: skip
JSON_BODIES: Final = (
    {"clientID": "fuzz", "producerDataSet": [{"groupName": "FuzzP"}], "consumerDataSet": []},
    {
        "clientID": "fuzz",
        "producerDataSet": [],
        "consumerDataSet": [
            {
                "groupName": "FuzzGroup",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    {
                        "topic": "Fuzz",
                        "subString": "*",
                        "subVersion": 1,
                        "codeSet": [],
                        "tagsSet": [],
                    }
                ],
            }
        ],
    },
    {
        "consumerGroup": "FuzzGroup",
        "clientId": "c",
        "mqSet": [{"topic": "Fuzz", "brokerName": "b", "queueId": 0}],
    },
    {
        "groupName": "FuzzGroup",
        "retryQueueNums": 1,
        "retryMaxTimes": 16,
        "consumeEnable": True,
        "brokerId": 0,
    },
    {"counter": 1, "timestamp": 1},
    {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "timestamp": 1},
            "topicConfigTable": {
                "Fuzz": {
                    "topicName": "Fuzz",
                    "readQueueNums": 4,
                    "writeQueueNums": 4,
                    "perm": 6,
                    "topicSysFlag": 0,
                }
            },
        },
    },
    {
        "clientId": "c",
        "group": "FuzzGroup",
        "namespace": "",
        "subscriptionData": {"topic": "Fuzz", "subString": "*"},
    },
)
SPARED: Final = frozenset({RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG})
"""Whoever may send these may also switch a daemon off: they are only sent with bodies that change
nothing."""


class Seed(NamedTuple):
    """One request, before it is encoded."""

    code: int
    fields: dict[str, Any]
    body: bytes


def seeds() -> list[Seed]:
    """Every request of the table with plausible fields, each with every kind of body that some
    request has."""
    made = []
    for code, command in COMMANDS.items():
        fields = {
            field.wire_name: _plausible(field.wire_name, field.kind)
            for field in fields_of(command.request)
        }
        bodies = (
            [b"", b"hello"]
            if command.request_body in (None, bytes)
            else [_json(body) for body in JSON_BODIES]
        )
        if code in SPARED:
            bodies = [b"", b"nobodyKnowsThis=1\n"]
        made += [Seed(int(code), fields, body) for body in bodies]
    return made


def captured_seeds(path: Path) -> list[Seed]:
    """The requests of a capture: gzipped lines of JSON with ``kind`` (``req``, ``oneway``) and the
    frame as ``hex``."""
    made = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["kind"] != "resp":
                [(form, header, body)] = FrameDecoder().feed(bytes.fromhex(line["hex"]))
                command = decode_header(form, header)
                made.append(Seed(command.code, dict(command.ext_fields or {}), bytes(body)))
    return made


def _plausible(name: str, kind: type) -> str:
    if kind is int:
        return "0" if name != "maxMsgNums" else "32"
    if kind is bool:
        return "false"
    return "FuzzGroup" if "roup" in name else "Fuzz"


class Hostile:
    """Makes frames out of seeds."""

    def __init__(self, rng: random.Random, seeds: Sequence[Seed]) -> None:
        self._rng = rng
        self._seeds = seeds
        self._codes = [int(code) for code in RequestCode]

    def frame(self) -> bytes:
        """The next frame; its lengths are right, everything else may be wrong."""
        rng = self._rng
        code, fields, body = rng.choice(self._seeds)
        fields = dict(fields)
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 4))):
            self._spoil_field(fields)
        if rng.random() < 0.15:
            code = rng.choice((*self._codes, *self._codes, -1, 0, 9999, 2**31 - 1, 32768))
        if rng.random() < 0.4:
            body = self._spoil_body(body)
        if code in SPARED:
            body = b"nobodyKnowsThis=1\n"
        flag = rng.choice((0, 0, 0, 0, 0, 0, 2, 2, 1, 3, -1, 4))
        form = rng.choice((0, 0, 0, 0, 1, 1, 0x4D))
        header = self._header(form, code, fields, flag)
        if rng.random() < 0.01:
            header = self._flip(header)
        if rng.random() < 0.003:
            form = rng.choice((2, 3, 0x80, 0xFF))
        return pack_prefix(4 + len(header) + len(body), form << 24 | len(header)) + header + body

    # --- headers
    # ----------------------------------------------------------------------------------------------

    def _spoil_field(self, fields: dict[str, Any]) -> None:
        rng = self._rng
        name = rng.choice(list(fields) or ["topic"])
        how = rng.randrange(6)
        if how == 0:
            fields.pop(name, None)
        elif how in (1, 2):
            fields[name] = str(rng.choice(NUMBERS))
        elif how == 3:
            fields[name] = rng.choice(TEXTS)
        elif how == 4:
            fields[name] = rng.choice((*NUMBERS, None, True, [], {}, [[[[]]]], {"a": {"b": [1]}}))
        else:
            fields[name] = rng.choice(NAMES)

    def _header(self, form: int, code: int, fields: dict[str, Any], flag: int) -> bytes:
        rng = self._rng
        opaque = rng.choice((rng.randrange(2**31), -1, 0))
        if form == 0:
            return self._json_header(code, fields, flag, opaque)
        texts = {
            name: str(value).encode("utf-8", "replace").decode() for name, value in fields.items()
        }
        command = RemotingCommand(
            code=code if form == 0x4D or -(2**15) <= code < 2**15 else 310,
            opaque=opaque,
            flag=flag,
            ext_fields=texts,
        )
        header = encode_header(command, SerializeType(form))
        if rng.random() < 0.03:  # a length inside says something else
            at = rng.randrange(max(1, len(header) - 4))
            header = (
                header[:at] + struct.pack(">i", rng.choice((-1, 2**31 - 1, 5))) + header[at + 4 :]
            )
        return header

    def _json_header(self, code: int, fields: dict[str, Any], flag: int, opaque: int) -> bytes:
        rng = self._rng
        values: dict[str, Any] = {
            "code": code, "extFields": fields, "flag": flag,
            "language": rng.choice(("JAVA", "PYTHON", "KLINGON", 3, None)),
            "opaque": opaque, "serializeTypeCurrentRPC": "JSON",
            "version": rng.choice((409, 0, -1, 2**31 - 1)),
        }  # fmt: skip
        if rng.random() < 0.03:
            values[rng.choice(list(values))] = rng.choice((None, "x", [], {}, 2**40, -1, 1.5, True))
        if rng.random() < 0.2:
            items = list(values.items())
            rng.shuffle(items)
            values = dict(items)
        text = json.dumps(values, separators=(",", ":"), ensure_ascii=rng.random() < 0.5)
        if rng.random() < 0.05:  # a key twice, half a surrogate, deep nesting, fastjson's liberties
            extra = rng.choice(
                (
                    '"flag":0,',
                    '"extFields":{},',
                    '"a":"\\ud800",',
                    '"a":' + "[" * 2000 + "]" * 2000 + ",",
                    "b:1,",
                    ",,",
                    "/**/",
                )
            )
            text = "{" + extra + text[1:]
        return text.encode("utf-8", "replace")

    # --- bodies
    # ----------------------------------------------------------------------------------------------

    def _spoil_body(self, body: bytes) -> bytes:
        rng = self._rng
        ways: list[Callable[[bytes], bytes]] = [
            lambda _: rng.choice(BODIES),
            lambda _: rng.randbytes(rng.randrange(200)),
            lambda _: _json(self._spoil_json(rng.choice(JSON_BODIES))),
            lambda _: _json(self._spoil_json(rng.choice(JSON_BODIES))),
            lambda old: old[: rng.randrange(len(old) + 1)],
            self._flip,
        ]
        return rng.choice(ways)(body)

    def _spoil_json(self, value: Any) -> Any:
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.9:
            key = rng.choice(list(value))
            return {**value, key: self._spoil_json(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.9:
            at = rng.randrange(len(value))
            return [*value[:at], self._spoil_json(value[at]), *value[at + 1 :]]
        return rng.choice(
            (*NUMBERS[:10], *TEXTS, None, True, [], {}, [None], [[]], {"a": 1}, "\ud800")
        )

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return data
        flipped = bytearray(data)
        for _ in range(self._rng.randrange(1, 5)):
            flipped[self._rng.randrange(len(flipped))] = self._rng.randrange(256)
        return bytes(flipped)


def garbage(rng: random.Random) -> bytes:
    """A stream that is no frame from its first bytes on, or from somewhere in the middle."""
    return rng.choice(
        (
            b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
            b"\xff" * 64,
            b"\x00\x00\x00\x00",
            b"\x80\x00\x00\x00\x00\x00\x00\x00",
            pack_prefix(2**31 - 1, 4),
            pack_prefix(20, 0xFFFFFF),
            b"\x16\x03\x01\x02\x00\x01\x00" + rng.randbytes(100),
            rng.randbytes(rng.randrange(1, 500)),
        )
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
