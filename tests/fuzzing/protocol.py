"""What comes over a connection: frames, headers, typed fields, bodies of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from aiorocketmq.broker.processors.lists import decode_request_list
from aiorocketmq.broker.raft.network import read_header
from aiorocketmq.client.cluster.pushed_requests import _reset_targets
from aiorocketmq.client.producer.sending import _stored, read_send_answer
from aiorocketmq.remoting.errors import RequestError, RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import (
    BodyError,
    decode_body,
    decode_request_body,
    encode_body,
)
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.fastjson import reader as fastjson
from aiorocketmq.remoting.protocol.frames.frame import BrokenStream, FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_head,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import FieldError, from_fields, from_texts, to_fields
from aiorocketmq.remoting.responses import Response, read_answer
from aiorocketmq.spark_connector.access.wire import PullAnswer
from aiorocketmq.spark_connector.access.wire import read_answer as read_pull_answer

from .parsers import Parser, same
from .samples import sample_of

_MAX_FRAME: Final = 4096
"""So that a short input can be over it."""
_FORMS: Final = tuple(SerializeType)
_REQUESTS: Final = tuple(command.request for command in COMMANDS.values())
_BODIES: Final[dict[str, Any]] = {
    str(kind): kind
    for command in COMMANDS.values()
    for kind in (command.request_body, command.response_body)
    if kind not in (None, bytes)
}
_KINDS: Final = tuple(_BODIES.values())
_FIELDS: Final = to_fields(sample_of(SendMessageRequest))
_ANSWER: Final = to_fields(sample_of(SendMessageResponse))


def _frames(data: bytes, step: int) -> Any:
    """Frames up to the first byte that is none."""
    decoder, found = FrameDecoder(_MAX_FRAME, long_header_bytes=2048), []
    try:
        for at in range(0, len(data), step):
            found += decoder.feed(data[at : at + step])
    except BrokenStream as error:
        return [*_plain(found), *_plain(error.frames)], "broken"
    rest = data[len(data) - decoder.held :]
    if 4 <= len(rest) < 8 and not 4 <= int.from_bytes(rest[:4], "big") <= _MAX_FRAME - 4:
        return _plain(found), "broken"  # which is seen with the eighth byte, if not before
    return _plain(found), decoder.held


def _plain(frames: list[Any]) -> list[Any]:
    return [(form, header, bytes(body)) for form, header, body in frames]


def _streams() -> Iterator[bytes]:
    yield encode_frame(0, b"header") + encode_frame(1, b"h" * 9, b"body")
    yield encode_frame(0x4D, b"h" * 2100, b"b" * 300) + encode_frame(0, b"", b"")


def _of_form(data: bytes) -> tuple[int, bytes]:
    """The first byte chooses the form."""
    form = _FORMS[data[0] % len(_FORMS)] if data else 0
    return form, data[1:]


def _header(data: bytes) -> object:
    form, header = _of_form(data)
    command = decode_header(form, header, max_keys=1024)
    head = decode_head(form, header)
    same((head.code, head.opaque, head.flag), (command.code, command.opaque, command.flag), "head")
    try:
        written = encode_header(command, form)
    except ValueError:  # a form cannot carry every code, version and text
        return command
    again = decode_header(form, written).ext_fields or {}  # the binary form has no empty ones
    same(again, command.ext_fields or {}, "written and read again")
    return command


def _headers() -> Iterator[bytes]:
    commands = [
        RemotingCommand(code=310, opaque=7, ext_fields=_FIELDS, remark="why"),
        RemotingCommand(code=34, opaque=-1, flag=2, ext_fields={}),
        RemotingCommand(code=0, opaque=9, flag=1, ext_fields=_ANSWER),
    ]
    for number, form in enumerate(_FORMS):
        for command in commands:
            yield bytes([number]) + encode_header(command, form)


def _head(data: bytes) -> object:
    return decode_head(*_of_form(data))


def _fields(data: bytes) -> object:
    """The first byte chooses the request, the rest is a JSON object of texts."""
    kind = _REQUESTS[data[0] % len(_REQUESTS)] if data else _REQUESTS[0]
    try:
        texts = msgspec.json.decode(data[1:], type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    expected = _or_refused(partial(from_fields, kind, texts))
    same(_or_refused(partial(from_texts, kind, texts)), expected, "both ways to a typed header")
    return expected


def _or_refused(read: Any) -> object:
    try:
        return read()
    except FieldError as error:
        return error.field


def _field_seeds() -> Iterator[bytes]:
    for kind in (SendMessageRequest, PullMessageRequest):
        yield bytes([_REQUESTS.index(kind)]) + msgspec.json.encode(to_fields(sample_of(kind)))


def _answer(data: bytes) -> object:
    answer = read_answer(*_of_form(data))
    if answer is None:
        return None
    answer = msgspec.structs.replace(answer, request_code=310)
    return answer.code, answer.opaque, answer.ext_fields, answer.header


def _send_answer(data: bytes) -> object:
    answer = read_send_answer(*_of_form(data))
    if isinstance(answer, Response):
        answer = msgspec.structs.replace(answer, request_code=310)
    return None if answer is None else _stored(answer, "127.0.0.1:10911")


def _pull_answer(data: bytes) -> object:
    answer = read_pull_answer(*_of_form(data))
    assert answer is None or isinstance(answer, PullAnswer)
    return answer


def _answers() -> Iterator[bytes]:
    fields = {
        **_ANSWER, "nextBeginOffset": "7", "minOffset": "0", "maxOffset": "9",
        "suggestWhichBrokerId": "0",
    }  # fmt: skip
    for number, form in enumerate(_FORMS):
        for code in (0, 10):
            command = RemotingCommand(code=code, opaque=9, flag=1, ext_fields=fields, remark="r")
            yield bytes([number]) + encode_header(command, form)


def _member_header(data: bytes) -> object:
    peer: Any = None
    context = read_header(0, data, 0, peer)
    if context is None:
        return None
    command = decode_header(0, data)
    same((context.code, context.opaque), (command.code, command.opaque), "the general way")
    return context.code


def _request_body(data: bytes) -> object:
    """The first byte chooses the type; what was read is written and read again."""
    kind = _KINDS[data[0] % len(_KINDS)] if data else _KINDS[0]
    found = decode_request_body(kind, data[1:])
    same(decode_body(kind, encode_body(found)), found, "written and read again")
    return found


def _bodies() -> Iterator[bytes]:
    for number, kind in enumerate(_KINDS):
        yield bytes([number]) + encode_body(sample_of(kind))
    table = '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:5}}'
    for number, kind in enumerate(_KINDS):
        if kind.__name__ == "ResetOffsetBody":
            yield bytes([number]) + table.encode()


def _list_body(data: bytes) -> object:
    return decode_request_list(_KINDS[0], data)


def _json(data: bytes) -> object:
    value = fastjson.loads(data)
    if b"$ref" not in data:
        same(fastjson.loads(data), value, "read again")
    return None


def _tolerant(data: bytes) -> object:
    """The long way alone, held against the short one where that can read the text."""
    parser = fastjson._Parser(data.decode("utf-8", "replace"))
    value = parser.document()
    if parser.has_references:
        fastjson._resolve(value)
        return None
    try:
        standard = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    same(value, standard, "the long way and the short one")
    return None


def _jsons() -> Iterator[bytes]:
    yield b'{"a":[1,-2.5e3,true,null,"\\u00e9\\n"],"b":{"c":{}}}'
    yield b'{a:1,\'b\':"x",3:{{"queueId":0}:5},/* c */ d:[NaN,,],}'
    yield b'{"a":{"b":[1]},"c":{"$ref":"$.a.b[0]"},"d":{"$ref":".."},"e":{"$ref":"@"}}'
    yield b'{"' + b'a":{"' * 20 + b'z":1' + b"}" * 21


_BODY_LIMITS: Final = (
    "remoting/protocol/bodies/codec.py: MAX_REQUEST_BYTES",
    "remoting/protocol/bodies/codec.py: MAX_CONVERTED_BYTES",
    "remoting/protocol/bodies/codec.py: MAX_LONG_WAY_BYTES",
    "remoting/protocol/bodies/codec.py: MAX_SHARED_NODES",
)
_HEADER: Final = "remoting/protocol/frames/serialization.py: "
_HEADER_LIMITS: Final = (_HEADER + "MAX_TOLERANT_BYTES", "remoting/transport/flow.py: Limits")

PARSERS: Final = (
    Parser(
        "frames",
        (
            "remoting/protocol/frames/frame.py: FrameDecoder.feed",
            "remoting/protocol/leaves/pure_frames.py: split_frames",
        ),
        ("remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES",),
        partial(_frames, step=1 << 20),
        twin=partial(_frames, step=7),
        seeds=_streams,
    ),
    Parser(
        "headers",
        (
            _HEADER + "decode_header",
            _HEADER + "_decode_json",
            _HEADER + "_decode_rocketmq",
            _HEADER + "_decode_ext",
            _HEADER + "_decode_msgpack",
        ),
        _HEADER_LIMITS,
        _header,
        (HeaderError,),
        seeds=_headers,
    ),
    Parser(
        "heads", (_HEADER + "decode_head",), _HEADER_LIMITS, _head, (HeaderError,), seeds=_headers
    ),
    Parser(
        "typed-fields",
        (
            "remoting/protocol/wire.py: from_fields",
            "remoting/protocol/wire.py: from_texts",
        ),
        ("remoting/transport/flow.py: Limits",),
        _fields,
        seeds=_field_seeds,
    ),
    Parser(
        "answers",
        ("remoting/responses.py: read_answer",),
        _HEADER_LIMITS,
        _answer,
        (RocketMQError, HeaderError),
        seeds=_answers,
    ),
    Parser(
        "send-answers",
        (
            "client/producer/sending.py: read_send_answer",
            "client/producer/sending.py: _read_stored",
        ),
        _HEADER_LIMITS,
        _send_answer,
        (RocketMQError, HeaderError),
        seeds=_answers,
    ),
    Parser(
        "pull-answers-of-spark",
        (
            "spark_connector/access/wire.py: read_answer",
            "spark_connector/access/wire.py: _decoded",
        ),
        _HEADER_LIMITS,
        _pull_answer,
        (RocketMQError,),
        seeds=_answers,
    ),
    Parser(
        "member-headers",
        ("broker/raft/network.py: read_header",),
        ("broker/raft/network.py: _SHORT_BYTES",),
        _member_header,
        seeds=lambda: [encode_header(RemotingCommand(code=51005, opaque=3))],
    ),
    Parser(
        "bodies",
        (
            "remoting/protocol/bodies/codec.py: decode_request_body",
            "remoting/protocol/bodies/codec.py: decode_body",
        ),
        _BODY_LIMITS,
        _request_body,
        (BodyError,),
        bytes_per_byte=300,
        seeds=_bodies,
    ),
    Parser(
        "lists-of-administrators",
        ("broker/processors/lists.py: decode_request_list",),
        ("broker/processors/lists.py: MAX_BYTES",),
        _list_body,
        (BodyError, RequestError),
        bytes_per_byte=300,
        seeds=lambda: [encode_body(sample_of(_KINDS[0]))],
    ),
    Parser(
        "offset-resets",
        ("client/cluster/pushed_requests.py: _reset_targets",),
        ("remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES",),
        _reset_targets,
        (BodyError,),
        bytes_per_byte=300,
        seeds=lambda: [body[1:] for body in _bodies() if b"offsetTable" in body],
    ),
    Parser(
        "json",
        (
            "remoting/protocol/fastjson/reader.py: loads",
            "remoting/protocol/fastjson/reader.py: parse",
        ),
        (
            "remoting/protocol/fastjson/reader.py: MAX_JSON_BYTES",
            "remoting/protocol/fastjson/reader.py: MAX_DEPTH",
        ),
        _json,
        (fastjson.JsonError,),
        bytes_per_byte=300,
        seeds=_jsons,
    ),
    Parser(
        "json-of-fastjson",
        ("remoting/protocol/fastjson/reader.py: _Parser",),
        (
            "remoting/protocol/bodies/codec.py: MAX_LONG_WAY_BYTES",
            "remoting/protocol/fastjson/reader.py: MAX_DEPTH",
            "remoting/protocol/fastjson/reader.py: _MAX_NUMBER",
            "remoting/protocol/fastjson/reader.py: _MAX_HOPS",
        ),
        _tolerant,
        (fastjson.JsonError,),
        bytes_per_byte=300,
        seeds=_jsons,
    ),
)
