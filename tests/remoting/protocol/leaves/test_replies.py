"""What is needed of the header of an answer: compiled, in Python, and as the general rules read it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.invocations import read_answer
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.leaves import pure_replies as pure
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, SerializeType, encode_header
from aiorocketmq.remoting.protocol.wire import Record, from_fields, i32

from .both import compiled_leaves
from .fuzz import mutated

compiled = compiled_leaves()
KINDS = [compiled, pure]
STORED = {
    "msgId": "7F00000100002A9F000000000000002A", "queueId": "3", "queueOffset": "987654", "transactionId": "T",
    "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
}  # fmt: skip
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
usual = st.fixed_dictionaries(
    {"msgId": text, "queueId": int32.map(str), "queueOffset": st.integers(-(2**59), 2**59).map(str)},
    optional={"transactionId": text, "MSG_REGION": text, "TRACE_ON": st.sampled_from(["true", "false", "1"]), "more": text},
)


def header(fields: dict[str, str] | None = STORED, **more: Any) -> bytes:
    return encode_header(RemotingCommand(**{"code": 0, "flag": 1, "opaque": 7, "ext_fields": fields, **more}))


def read(kind: Any, data: bytes) -> tuple[int | None, SendMessageResponse | None]:
    return kind.answer_opaque(0, data), kind.Replies(SendMessageResponse).read(0, data)


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
    general = read_answer(SerializeType.JSON, data)
    for kind in KINDS:
        found, typed = read(kind, data)
        assert found is None or (general is not None and found == general.opaque)
        if typed is not None:
            assert general is not None
            assert code == 0
            assert typed == from_fields(SendMessageResponse, general.ext_fields)


@given(st.integers(0, 2**64).map(random.Random), st.booleans())
def test_damage_is_no_answer_or_the_same_one(chance: random.Random, spaced: bool) -> None:
    data = mutated(json.dumps(json.loads(header()), indent=1).encode() if spaced else header(), chance)
    general = read_answer(SerializeType.JSON, data)
    for kind in KINDS:
        found, typed = read(kind, data)
        assert found is None or (general is not None and found == general.opaque)
        assert typed is None or (general is not None and typed == from_fields(SendMessageResponse, general.ext_fields))


@pytest.mark.parametrize("kind", KINDS)
def test_the_usual_answer_is_read(kind: Any) -> None:
    stored = from_fields(SendMessageResponse, STORED)
    assert read(kind, header()) == (7, stored)
    assert read(kind, header(remark="why", version=0)) == (7, stored)
    assert read(kind, header({})) == read(kind, header(None)) == (7, None)
    assert read(kind, header(code=1)) == (7, None)
    assert read(kind, header(flag=0)) == (None, None), "a request"
    assert read(kind, b"") == read(kind, b"[]") == read(kind, b'{"flag":1,"opaque":7}') == (None, None)
    unknown = header({**STORED, "MSG_REGION": "Zürich"})
    found = kind.Replies(SendMessageResponse).read(0, unknown)
    assert found is not None
    assert found.msg_region == "Zürich"


@pytest.mark.parametrize("kind", KINDS)
def test_other_forms_are_left_to_the_general_rule(kind: Any) -> None:
    replies = kind.Replies(SendMessageResponse)
    for form in (SerializeType.ROCKETMQ, SerializeType.MSGPACK, 0x100):
        assert kind.answer_opaque(form, header()) is replies.read(form, header()) is None


def test_a_long_header_is_left_to_the_general_rule() -> None:
    for size in (3000, 5000):
        found = read(compiled, header(remark="x" * size))
        assert found == (read(pure, header(remark="x" * size)) if size < 4096 else (None, None))


def test_what_is_no_header_type() -> None:
    class Checked(Record, frozen=True):
        number: i32

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="Checked"):
        compiled.Replies(Checked)
