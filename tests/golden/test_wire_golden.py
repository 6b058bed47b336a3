"""Every frame captured from the original goes through our types and comes out the same."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import msgspec
import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import (
    body_crc32,
    pack_registration,
    unpack_registration,
)
from aiorocketmq.remoting.protocol.bodies.route import TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.base import Command
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.protocol.fastjson import writer as fastjson_writer
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import from_fields, to_fields
from aiorocketmq.remoting.slices import at_once

from ..golden_files import golden_lines

RUNS = ("json-wire", "rocketmq-wire", "v6-wire")
HEADER_FILLED = {0, 10, 11, 12, 19, 20, 21}
"""Codes of replies whose header is complete; of the others it may be empty."""
DUPLICATE_KEY_FRAMES = {
    (11, 1176): "mqadmin queryMsgByOffset: a signed PULL_MESSAGE",
    (310, 1346): "mqadmin sendMessage: a signed SEND_MESSAGE_V2",
}
"""Code and opaque of the captured frames that carry duplicate keys (the quirk DUPLICATE_KEYS), and
where they come from."""
FOREIGN_FIELDS = {"AccessKey", "Signature", "ReqT"}
"""What signers and hooks add to extFields and no header declares."""


class Captured(NamedTuple):
    """One frame, cut and with its header in the general form."""

    frame: bytes
    serialize_type: int
    header: bytes
    body: bytes
    code: RequestCode
    """Of the request, also for a reply."""
    is_response: bool
    command: RemotingCommand

    @property
    def row(self) -> Command:
        return COMMANDS[self.code]

    @property
    def body_type(self) -> Any:
        return self.row.response_body if self.is_response else self.row.request_body

    def __str__(self) -> str:
        kind = "reply to" if self.is_response else "request"
        return f"{kind} {self.code.name}, opaque {self.command.opaque}"


@functools.cache
def captured(run: str) -> tuple[Captured, ...]:
    return tuple(_read(run))


def _read(run: str) -> Iterator[Captured]:
    for entry in golden_lines(run):
        raw = bytes.fromhex(entry["hex"])
        ((serialize_type, header, body),) = FrameDecoder().feed(raw)
        is_response = entry["kind"] == "resp"
        yield Captured(
            frame=raw,
            serialize_type=serialize_type,
            header=header,
            body=bytes(body),
            code=RequestCode(entry["reqCode"] if is_response else entry["code"]),
            is_response=is_response,
            command=decode_header(serialize_type, header),
        )


def through_typed_header(item: Captured) -> dict[str, str]:
    """The ext fields after a round trip through the Record of the table: its fields, then what it
    does not know."""
    received = item.command.ext_fields or {}
    header_type = item.row.response if item.is_response else item.row.request
    if item.is_response and item.command.code not in HEADER_FILLED:
        assert received == {}, item
        return {}
    fields = to_fields(from_fields(header_type, received))
    foreign = {name: text for name, text in received.items() if name not in fields}
    assert set(foreign) <= FOREIGN_FIELDS, item
    return {**fields, **foreign}


@pytest.mark.parametrize("run", RUNS)
def test_every_frame_through_its_typed_header(run: str) -> None:
    """The same pairs; with the original's order of them the same bytes, in both forms."""
    frames = captured(run)
    assert len(frames) > 30
    unlike: set[tuple[int, int]] = set()
    for item in frames:
        command = item.command
        fields = through_typed_header(item)
        assert fields == (command.ext_fields or {}), item
        if command.ext_fields is not None:
            in_their_order = {name: fields[name] for name in command.ext_fields}
            command = msgspec.structs.replace(command, ext_fields=in_their_order)
        header = encode_header(command, item.serialize_type)
        if encode_frame(item.serialize_type, header, item.body) != item.frame:
            unlike.add((int(item.code), command.opaque))
    assert unlike == (set(DUPLICATE_KEY_FRAMES) if run == "rocketmq-wire" else set())


def test_top_level_keys_keep_the_original_order() -> None:
    """Also when the pairs of extFields come in our order."""
    for item in captured("json-wire"):
        fields = through_typed_header(item)
        command = msgspec.structs.replace(
            item.command, ext_fields=fields if item.command.ext_fields is not None else None
        )
        theirs, ours = (
            json.loads(item.header),
            json.loads(encode_header(command, SerializeType.JSON)),
        )
        assert list(ours) == list(theirs), item
        assert ours == theirs, item


def test_the_runs_use_the_form_that_they_say() -> None:
    assert {item.serialize_type for item in captured("json-wire")} == {SerializeType.JSON}
    assert {item.serialize_type for item in captured("rocketmq-wire")} == {SerializeType.ROCKETMQ}


def test_frames_with_duplicate_keys_hold_what_the_quirk_says() -> None:
    found = {
        (int(item.code), item.command.opaque)
        for item in captured("rocketmq-wire")
        if len(names := _names_in_binary_header(item.header)) != len(set(names))
    }
    assert found == set(DUPLICATE_KEY_FRAMES)


def _names_in_binary_header(header: bytes) -> list[str]:
    """Read by hand, because our decoder keeps one of two."""
    short, integer = Struct(">h"), Struct(">i")
    position = 17 + integer.unpack_from(header, 13)[0] + 4
    names = []
    while position < len(header):
        end = position + 2 + short.unpack_from(header, position)[0]
        names.append(header[position + 2 : end].decode())
        position = end + 4 + integer.unpack_from(header, end)[0]
    return names


# --- bodies
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_every_json_body_through_its_type(run: str) -> None:
    seen = set()
    for item in captured(run):
        if not item.body:
            continue
        assert item.body_type is not None, f"{item} has a body that the table does not know"
        if item.body_type is bytes or _is_packed(item):
            continue
        typed = decode_body(item.body_type, item.body)
        if (
            item.body_type is TopicRouteData
        ):  # all clients of the capture are new enough for the standard form
            assert fastjson_writer.dumps_browser_compatible(typed) == item.body
        else:
            assert encode_body(typed) == item.body, item
        seen.add((item.code, item.is_response))
    expected = {
        (RequestCode.HEART_BEAT, False),
        (RequestCode.REGISTER_BROKER, True),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, True),
    }
    if run != "v6-wire":
        expected |= {
            (RequestCode.GET_BROKER_CLUSTER_INFO, True),
            (RequestCode.GET_CONSUMER_CONNECTION_LIST, True),
        }
        assert len(seen) > 20
    if run == "json-wire":
        expected |= {(RequestCode.REGISTER_BROKER, False)}
    assert seen >= expected


def _is_packed(item: Captured) -> bool:
    return (
        item.code == RequestCode.REGISTER_BROKER
        and (item.command.ext_fields or {}).get("compressed") == "true"
    )


def test_packed_registrations() -> None:
    """Equal content, and the plain text inside is equal to the byte; zlib's own output may differ
    between its versions."""
    packed = [item for item in captured("rocketmq-wire") if _is_packed(item)]
    assert len(packed) > 30
    for item in packed:
        body = at_once(unpack_registration(item.body))
        assert len(body.topic_config_table.topic_config_table) >= 1
        assert body.topic_config_table.data_version.timestamp > 0
        assert zlib.decompress(pack_registration(body)) == zlib.decompress(item.body)


@pytest.mark.parametrize("run", RUNS)
def test_checksums_of_registrations(run: str) -> None:
    for item in captured(run):
        if item.code == RequestCode.REGISTER_BROKER and not item.is_response:
            request = from_fields(RegisterBrokerRequest, item.command.ext_fields or {})
            assert request.body_crc32 == body_crc32(item.body)
