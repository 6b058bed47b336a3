"""Answers by template: compiled, in Python, and as the general encoder writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.frames import reply_frames
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves import pure_answers as pure
from aiorocketmq.remoting.protocol.wire import to_fields

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
TEMPLATES = [compiled.FrameTemplate, pure.FrameTemplate]
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
some_bytes = st.binary(max_size=30) | st.integers(900, 3000).map(bytes)
KINDS = {"d": int64, "X": st.integers(0, 2**63 - 1), "i": int32, "b": some_bytes}
text: st.SearchStrategy[str] = st.text(
    alphabet=st.characters(exclude_categories=["Cs"]), max_size=20
)


def pieces(depth: int = 0) -> st.SearchStrategy[list[Any]]:
    leaf = st.sampled_from([*KINDS, b"100%d"]).map(lambda piece: [piece]) | st.binary(
        max_size=8
    ).map(lambda b: [b])
    group = (
        leaf if depth == pure.DEEPEST else pieces(depth + 1).map(lambda inside: ["(", *inside, ")"])
    )
    return st.lists(leaf | group, max_size=5).map(
        lambda parts: [piece for part in parts for piece in part]
    )


@given(pieces(), st.data(), st.integers(0, 255), st.integers(0, 2**20))
def test_any_template(parts: list[Any], data: st.DataObject, form: int, body_size: int) -> None:
    kinds = [part for part in parts if part in KINDS]
    order = data.draw(st.permutations(range(len(kinds))))
    numbers = iter(order)
    template = [(part, next(numbers)) if part in KINDS else part for part in parts]
    values: list[Any] = [None] * len(kinds)
    for kind, number in zip(kinds, order, strict=True):
        values[number] = data.draw(KINDS[kind])
    made, expected = (kind(form, template).fill(tuple(values), body_size) for kind in TEMPLATES)
    assert made == expected


def test_a_value_may_stand_in_several_places() -> None:
    template = [("b", 0), b"-", ("b", 0), "(", ("b", 0), ("d", 1), ")", ("i", 1)]
    made, expected = (kind(1, template).fill((b"x" * 400, 7)) for kind in TEMPLATES)
    assert made == expected


@pytest.mark.parametrize(
    "wrong",
    [
        ["("],
        [")"],
        ["(", ")", ")"],
        [("z", 0)],
        [7],
        ["d"],
        ["("] * 5 + [")"] * 5,
        [None],
        ["(", [], ")"],
    ],
)
def test_what_is_no_template(wrong: list[Any]) -> None:
    found, expected = (outcome(kind, 0, wrong) for kind in TEMPLATES)
    assert found == expected
    assert isinstance(found, tuple)
    assert found[0] is ValueError


def test_a_frame_over_the_limit_is_refused() -> None:
    for size, body_size in (
        (16 << 20, 0),
        (100, 16 << 20),
        ((16 << 20) - 8, 0),
        ((16 << 20) - 8, 1),
        (70_000, 9),
    ):
        made = [outcome(kind(0, [("b", 0)]).fill, (bytes(size),), body_size) for kind in TEMPLATES]
        assert made[0] == made[1]
        assert isinstance(made[0], bytes) == (size + body_size + 8 <= 16 << 20)


def test_values_that_do_not_fit() -> None:
    for kind, value in (
        ("d", 2**63),
        ("X", -(2**63) - 1),
        ("i", 2**31),
        ("b", "text"),
        ("b", None),
        ("d", "x"),
    ):
        with pytest.raises((TypeError, OverflowError)):
            compiled.FrameTemplate(0, [(kind, 0)]).fill((value,))
    with pytest.raises(IndexError):
        compiled.FrameTemplate(0, [("d", 1)]).fill((1,))


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("form", list(SerializeType))
@given(data=st.data())
def test_the_answer_to_a_send(kind: Any, form: int, data: st.DataObject) -> None:
    region, trace_on, remark = (
        data.draw(text),
        data.draw(st.booleans()),
        data.draw(st.none() | text),
    )
    offset: Any = data.draw(KINDS["X"])
    queue_id, number, opaque = data.draw(int32), data.draw(int64), data.draw(int32)
    header = SendMessageResponse(
        msg_id="", queue_id=0, queue_offset=0, trace_on=trace_on, msg_region=region
    )
    holes = {"msg_id": b"7F%%00%016X", "queue_id": b"%d", "queue_offset": b"%d"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_frames, "FrameTemplate", kind)
        frame = reply_frames.reply_frames(header, holes, remark)[form](
            (offset, queue_id, number, opaque)
        )
    filled = SendMessageResponse(
        msg_id=f"7F%00{offset:016X}",
        queue_id=queue_id,
        queue_offset=number,
        trace_on=trace_on,
        msg_region=region,
    )
    command = RemotingCommand(
        code=0, flag=1, opaque=opaque, ext_fields=to_fields(filled), remark=remark
    )
    if form == SerializeType.ROCKETMQ:
        assert frame == encode_frame(form, encode_header(command, form))
    assert frame[:8] == encode_frame(form, frame[8:])[:8]
    assert decode_header(form, frame[8:]) == decode_header(form, encode_header(command, form))
    with_code = reply_frames.frame_with_code(frame, 11)
    command.code = 11
    assert with_code[:8] == encode_frame(form, with_code[8:])[:8]
    assert decode_header(form, with_code[8:]) == decode_header(form, encode_header(command, form))


@given(st.text() | st.integers(100, 999).map("\0".__mul__), int64)
def test_a_text_becomes_json(value: str, number: int) -> None:
    template = [b'{"text":', ("s", 0), b',"number":', ("d", 1), b',"again":', ("s", 0), b"}"]
    made, expected = (outcome(kind(0, template).header, (value, number)) for kind in TEMPLATES)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        assert isinstance(made, tuple)
        assert isinstance(expected, tuple)
        assert made[0] is expected[0] is UnicodeEncodeError
        return
    assert made == expected
    assert isinstance(made, bytes)
    assert msgspec.json.decode(made) == {"text": value, "number": number, "again": value}
    framed = compiled.FrameTemplate(0, template).fill((value, number))
    assert framed == encode_frame(0, made)


def test_the_forms_of_a_short_answer() -> None:
    frames = reply_frames.reply_frames(OffsetResponse(offset=5), {})
    for form, fill in frames.items():
        command = RemotingCommand(code=0, flag=1, opaque=-9, ext_fields={"offset": "5"})
        assert decode_header(form, fill((-9,))[8:]) == decode_header(
            form, encode_header(command, form)
        )
