"""What is needed of the header of an answer: compiled, in Python, and as the general rules read
it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves import pure_replies as pure
from aiorocketmq.remoting.protocol.wire import Record, from_fields, i32
from aiorocketmq.remoting.responses import read_answer

from ....fuzzing.mutation import mutated
from .both import compiled_leaves

compiled = compiled_leaves()
KINDS = [compiled, pure]
STORED = {
    "msgId": "7F00000100002A9F000000000000002A", "queueId": "3", "queueOffset": "987654",
    "transactionId": "T",
    "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
}  # fmt: skip
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
usual = st.fixed_dictionaries(
    {
        "msgId": text,
        "queueId": int32.map(str),
        "queueOffset": st.integers(-(2**59), 2**59).map(str),
    },
    optional={
        "transactionId": text,
        "MSG_REGION": text,
        "TRACE_ON": st.sampled_from(["true", "false", "1"]),
        "more": text,
    },
)


def header(fields: dict[str, str] | None = STORED, **more: Any) -> bytes:
    return encode_header(
        RemotingCommand(**{"code": 0, "flag": 1, "opaque": 7, "ext_fields": fields, **more})
    )


def read(kind: Any, data: bytes, form: int = 0) -> tuple[int, SendMessageResponse] | None:
    found: tuple[int, SendMessageResponse] | None = kind.Replies(SendMessageResponse).read(
        form, data
    )
    return found


def general(data: bytes) -> tuple[int, SendMessageResponse] | None:
    answer = read_answer(SerializeType.JSON, data)
    assert answer is not None
    assert answer.code == 0
    return answer.opaque, from_fields(SendMessageResponse, answer.ext_fields)


@given(
    st.none() | usual | st.dictionaries(text, text),
    st.sampled_from([0, 0, 1, 10]),
    st.integers(0, 3),
    int32,
    st.none() | text,
)
def test_it_reads_what_the_general_rules_read(
    fields: dict[str, str] | None, code: int, flag: int, opaque: int, remark: str | None
) -> None:
    data = header(fields, code=code, flag=flag, opaque=opaque, remark=remark)
    for kind in KINDS:
        found = read(kind, data)
        assert found is None or found == general(data)


@given(st.integers(0, 2**64).map(random.Random), st.booleans())
def test_damage_is_no_answer_or_the_same_one(chance: random.Random, spaced: bool) -> None:
    data = mutated(
        json.dumps(json.loads(header()), indent=1).encode() if spaced else header(), chance
    )
    for kind in KINDS:
        found = read(kind, data)
        assert found is None or found == general(data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_usual_answer_is_read(kind: Any) -> None:
    stored = from_fields(SendMessageResponse, STORED)
    assert read(kind, header()) == (7, stored)
    assert read(kind, header(remark="why", version=0, opaque=-9)) == (-9, stored)
    for other in (
        header({}),
        header(None),
        header(code=1),
        header(flag=0),
        header({"msgId": "M", "queueId": "1"}),
    ):
        assert read(kind, other) is None
    assert read(kind, b"") is read(kind, b"[]") is read(kind, b'{"flag":1,"opaque":7}') is None
    elsewhere = read(kind, header({**STORED, "MSG_REGION": "Zürich"}))
    assert elsewhere is not None
    assert elsewhere[1].msg_region == "Zürich"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [SerializeType.ROCKETMQ, SerializeType.MSGPACK, 0x100])
def test_other_forms_are_left_to_the_general_rule(kind: Any, form: int) -> None:
    assert read(kind, header(), form) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3000, 5000, 300_000])
def test_a_long_header_is_read_too(kind: Any, size: int) -> None:
    """That of an answer to a batch has the ids of all its messages."""
    ids = "x\n" * (size // 2)
    found = read(kind, header({**STORED, "msgId": ids}, remark="y" * size))
    assert found == (7, from_fields(SendMessageResponse, {**STORED, "msgId": ids}))


def test_what_is_no_header_type() -> None:
    class Checked(Record, frozen=True):
        number: i32

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="Checked"):
        compiled.Replies(Checked)
