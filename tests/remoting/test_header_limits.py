"""Headers that are too long or have too many keys are refused in words, before anybody reads
them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgpack
import pytest

from aiorocketmq.remoting.dispatch import Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, pack_prefix
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_head,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.transport.flow import Limits, long_header_bytes

from ..sim import SimOwner, connect

FORMS = list(SerializeType)
SEND = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}


def header_of(form: int, fields: dict[str, str], *, opaque: int = 7, code: int = 310) -> bytes:
    return encode_header(RemotingCommand(code=code, opaque=opaque, ext_fields=fields), form)


def ask(
    *headers: tuple[int, bytes], limits: Limits | None = None
) -> tuple[list[RemotingCommand], list[Any], bool]:
    """The answers, the requests that got through, and whether the connection is still open."""
    served: list[Any] = []

    def send(request: Any, _body: object, _ctx: Context) -> Reply:
        served.append(request)
        return Reply()

    async def scene() -> tuple[list[RemotingCommand], list[Any], bool]:
        owner = SimOwner(Dispatcher({RequestCode.SEND_MESSAGE_V2: send}), limits=limits)
        connection, transport = connect(owner)
        for form, header in headers:
            connection.data_received(
                pack_prefix(4 + len(header), form << 24 | len(header)) + header
            )
        answers = [
            decode_header(f, header)
            for f, header, _ in FrameDecoder().feed(bytes(transport.written))
        ]
        return answers, served, not connection.closed

    return asyncio.run(scene())


@pytest.mark.parametrize("form", FORMS)
def test_a_long_header_is_refused_and_the_connection_goes_on(form: int) -> None:
    long = header_of(form, {**SEND, "i": "x" * 262_144})
    answers, served, is_open = ask((form, long), (form, header_of(form, SEND, opaque=8)))
    assert [(each.code, each.opaque) for each in answers] == [(1, 7), (0, 8)]
    assert (
        answers[0].remark == f"the header has {len(long)} bytes, the limit is maxHeaderBytes=262144"
    )
    assert (len(served), is_open) == (1, True)


@pytest.mark.parametrize("form", FORMS)
def test_so_many_keys_and_no_more(form: int) -> None:
    more = {f"k{number}": "1" for number in range(1024 - len(SEND))}
    some, too_many = (
        header_of(form, {**SEND, **more}),
        header_of(form, {**SEND, **more, "last": "1"}),
    )
    answers, served, is_open = ask((form, some), (form, too_many), (form, some))
    assert [each.code for each in answers] == [0, 1, 0]
    assert (
        answers[1].remark == "the header has more than 1024 keys, the limit is maxHeaderKeys=1024"
    )
    assert (len(served), is_open) == (2, True)


def test_the_longest_properties_pass_however_they_are_written() -> None:
    text = "\x03" * 32_767
    written = json.dumps(
        {"code": 310, "extFields": {**SEND, "i": text}, "opaque": 7}, separators=(",", ":")
    ).encode()
    assert len(written) > 6 * 32_767
    _, served, _ = ask((0, written))
    assert served[0].properties == text


def test_an_answer_that_is_too_long_ends_the_connection() -> None:
    header = encode_header(RemotingCommand(code=0, opaque=1, flag=1, remark="x" * 300_000))
    assert ask((0, header)) == ([], [], False)


@pytest.mark.parametrize("form", FORMS)
def test_nobody_waits_for_a_million_keys(form: int) -> None:
    """It took 0.6 s of CPU and hundreds of megabytes."""
    pairs = {f"k{number}": "1" for number in range(900_000)}
    header = (
        msgpack.packb([310, None, 0, 7, 0, None, pairs]) if form == 0x4D else header_of(form, pairs)
    )
    began = time.thread_time()
    answers, _, _ = ask((form, header))
    assert time.thread_time() - began < 0.2
    assert [each.code for each in answers] == [1]


def test_only_the_head_is_read_of_a_header_that_is_refused() -> None:
    for form in FORMS:
        header = header_of(form, {"x": "y" * 100_000}, opaque=-5, code=11)
        head = decode_head(form, header)
        assert (head.code, head.opaque, head.flag, head.ext_fields) == (11, -5, 0, None)
        with pytest.raises(HeaderError):
            decode_head(form, header[:1])
    with pytest.raises(HeaderError, match="unknown serialize type 9"):
        decode_head(9, b"{}")


def test_a_header_that_nobody_looks_at_keeps_the_limits() -> None:
    limits = Limits(max_header_keys=500)
    longest = long_header_bytes(limits)
    header = b'{"code":310,"extFields":{' + b'"a":1,' * (longest // 6)
    assert header.count(b":") - 2 <= 500
    assert long_header_bytes(Limits(max_header_bytes=4096)) == 4096
