"""The twin of the leaf for ROCKETMQ headers knows their shapes; what it reads is what the general
rule reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves.pure_binary_headers import BinaryHeaders, Request
from aiorocketmq.remoting.protocol.wire import FieldError, Record, from_texts, to_fields

from ....strategies import records, wire_text

ROCKETMQ = SerializeType.ROCKETMQ
TYPES = {int(code): command.request for code, command in COMMANDS.items() if code < 2**15}
int32 = st.integers(-(2**31), 2**31 - 1)

SEND = SendMessageRequestV2(
    producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000, flag=0, properties="KEYS\x01k", reconsume_times=0,
)  # fmt: skip


def encoded(
    code: int,
    fields: dict[str, str] | None,
    opaque: int = 7,
    flag: int = 0,
    remark: str | None = None,
) -> bytes:
    command = RemotingCommand(code=code, opaque=opaque, flag=flag, ext_fields=fields, remark=remark)
    return encode_header(command, ROCKETMQ)


def the_general_way(header: bytes) -> Request | None:
    """``None`` for what is refused there."""
    try:
        command = decode_header(ROCKETMQ, header)
        fields = from_texts(TYPES[command.code], command.ext_fields or {})
    except (HeaderError, FieldError):
        return None
    return command.code, command.opaque, command.flag, command.version, fields


def knowing(header: bytes) -> BinaryHeaders:
    """One that has seen this header. (The very first one is always remembered.)"""
    known = BinaryHeaders(TYPES)
    known.read(header)
    return known


def replaced(header: Record, **changes: Any) -> dict[str, str]:
    return {**to_fields(header), **changes}


@pytest.mark.parametrize("code", TYPES, ids=lambda code: RequestCode(code).name)
@settings(max_examples=20)
@given(data=st.data(), opaque=int32, flag=st.sampled_from([0, 2]))
def test_both_ways_give_the_same_for_every_command(
    code: int, data: st.DataObject, opaque: int, flag: int
) -> None:
    fields = to_fields(data.draw(records(TYPES[code])))
    header = encoded(code, fields, opaque, flag)
    found = knowing(encoded(code, fields)).read(header)
    assert found == (the_general_way(header) if found else None)
    if fields and all(fields.values()):
        assert found is not None


@given(
    values=st.dictionaries(
        st.sampled_from([*"abcdefghijklmnx"]),
        st.sampled_from(
            [
                "1",
                "0",
                "true",
                "TRUE",
                "false",
                "null",
                "-1",
                "2.0",
                "1e3",
                "007",
                "+5",
                "99999999999",
                "é",
                " 1",
                "no",
            ]
        ),
    )
)
@example({"m": "1"})
@example({"k": "null"})
def test_odd_values_are_read_as_the_general_way_reads_them(values: dict[str, str]) -> None:
    header = encoded(RequestCode.SEND_MESSAGE_V2, replaced(SEND, **values))
    found = knowing(header).read(header)
    assert found is None or found == the_general_way(header)


@given(data=st.data(), more=st.dictionaries(wire_text, wire_text, max_size=2))
def test_bytes_that_were_changed_are_read_as_the_general_way_reads_them_or_not_at_all(
    data: st.DataObject, more: dict[str, str]
) -> None:
    header = bytearray(encoded(RequestCode.SEND_MESSAGE_V2, replaced(SEND, **more)))
    known = knowing(bytes(header))
    for _ in range(data.draw(st.integers(1, 4))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(
            st.sampled_from([0, 1, 2, 4, 5, 0x80, 0xA1, 0xD9, 0xDB, 255])
        )
    for _ in range(20):
        found = known.read(bytes(header))
        assert found is None or found == the_general_way(bytes(header))


@given(st.binary(max_size=120))
def test_garbage_is_left_to_the_general_way(garbage: bytes) -> None:
    known = BinaryHeaders(TYPES)
    for _ in range(20):
        found = known.read(garbage)
        assert found is None or found == the_general_way(garbage)


def test_a_header_that_was_seen_goes_the_short_way_from_then_on() -> None:
    known = BinaryHeaders(TYPES)
    header = encoded(310, to_fields(SEND))
    assert known.read(header) is None
    assert known.read(header) == the_general_way(header)
    other = encoded(310, replaced(SEND, e="3", i="KEYS\x01x"), opaque=8)
    assert known.read(other) == the_general_way(other)  # its shape is the same


@pytest.mark.parametrize(
    "header",
    [
        encoded(310, to_fields(SEND), flag=1),
        encoded(310, to_fields(SEND), remark="why"),
        encoded(310, to_fields(SEND)) + b"\0",
        encoded(310, replaced(SEND, x="")),
        encoded(310, {**to_fields(SEND), "": "x"}),
        encoded(310, replaced(SEND, k="1")),
        encoded(310, replaced(SEND, i="x" * 3000)),
        encoded(310, replaced(SEND, **{"y" * 40: "1"})),
        encoded(9999, to_fields(SEND)),
        encoded(310, to_fields(SEND))[:20],
    ],
    ids=[
        "answer",
        "remark",
        "more behind",
        "null",
        "no name",
        "1 for true",
        "long",
        "long name",
        "unknown code",
        "short",
    ],
)
def test_what_is_unusual_goes_the_general_way(header: bytes) -> None:
    assert knowing(header).read(header) is None


def test_a_remark_that_looks_like_the_length_of_the_fields_is_no_such_thing() -> None:
    good = encoded(310, to_fields(SEND))
    known = knowing(good)
    assert known.read(good) is not None
    assert known.read(good[:13] + (4).to_bytes(4, "big") + good[17:]) is None


def test_text_that_is_none_is_left_to_the_general_way_also_where_nobody_reads_it() -> None:
    good = encoded(310, replaced(SEND, zz="text"))
    bad = good.replace(b"text", b"te\xffx")
    known = knowing(good)
    assert known.read(good) is not None
    assert known.read(bad) is None
    with pytest.raises(HeaderError):
        decode_header(ROCKETMQ, bad)


def test_shapes_have_a_limit() -> None:
    known = BinaryHeaders(TYPES)
    for length in range(1, 1200):
        for code in (310, 320, 325):
            header = encoded(code, replaced(SEND, i="x" * length))
            known.read(header)
            known.read(header)
        assert sum(map(len, known._shapes.values())) <= 1000
    assert sum(map(len, known._shapes.values())) > 100
    known = BinaryHeaders(TYPES)
    for length in range(1, 20):  # all of one size
        header = encoded(310, replaced(SEND, b="t" * length, i="p" * (20 - length)))
        for _ in range(12):
            known.read(header)
    assert max(map(len, known._shapes.values())) == 8
