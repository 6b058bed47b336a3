"""Frames where they arrived: the same as the decoder of the event loop cuts, in any split."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the extra [spark] is not installed")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.errors import ProtocolError
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, FrameError, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.spark_connector.access import frame_buffer
from aiorocketmq.spark_connector.access.frame_buffer import FrameBuffer, PlacedFrame
from aiorocketmq.spark_connector.access.wire import PullHeader, read_answer


def receive(buffer: FrameBuffer, data: bytes) -> list[PlacedFrame]:
    """As a socket would give it: never more than there is room for."""
    frames = []
    while data:
        free = buffer.get_buffer()
        assert len(free)
        part, data = data[: len(free)], data[len(free) :]
        free[: len(part)] = part
        frames += buffer.buffer_updated(len(part))
    return frames


@given(
    st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=300)), max_size=20),
    st.lists(st.integers(1, 400), min_size=1, max_size=10),
    st.integers(8, 200),
    st.booleans(),
)
def test_any_split_gives_the_same_frames(
    parts: list[tuple[bytes, bytes]], splits: list[int], buffer_bytes: int, rests: bool
) -> None:
    stream = b"".join(
        encode_frame(number % 2, header, body) for number, (header, body) in enumerate(parts)
    )
    buffer, found, at = FrameBuffer(buffer_bytes), [], 0
    for number in range(len(stream)):
        size = splits[number % len(splits)]
        found += receive(buffer, stream[at : at + size])
        at += size
        if rests:
            buffer.release()
    assert [(form, header, bytes(body.view)) for form, header, body in found] == [
        (number % 2, header, body) for number, (header, body) in enumerate(parts)
    ], "all of them, and later ones have not been written over earlier ones"


def test_a_buffer_is_used_again_when_nobody_looks_at_it() -> None:
    frame_buffer._spare.clear()
    stream = encode_frame(0, b"h", bytes([7]) * 1000)
    (_, _, body), *_ = receive(FrameBuffer(), stream)
    place, shown = place_of(body.buffer), body.view[100:]
    del body
    assert place_of(FrameBuffer().get_buffer()) != place
    assert shown == bytes([7]) * 900
    del shown
    places = [place_of(buffer) for buffer in [FrameBuffer().get_buffer() for _ in range(3)]]
    assert place in places
    assert len(set(places)) == 3
    assert len(frame_buffer._spare) == 2, "a few, to be used again; more is given back"


def place_of(view: memoryview) -> int:
    """Its address."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def test_frames_that_come_together_lie_in_one_buffer() -> None:
    stream = b"".join(encode_frame(0, b"h", bytes([number]) * 1000) for number in range(100))
    found = receive(FrameBuffer(), stream)
    assert len({id(body.buffer) for _, _, body in found}) == 1


@given(st.binary(min_size=8, max_size=40))
def test_what_is_no_frame_is_refused_as_elsewhere(data: bytes) -> None:
    def outcome(cut: object) -> object:
        try:
            return [(frame[0], frame[1]) for frame in cut(data)]  # type: ignore[operator]
        except FrameError:
            return "refused"

    ours, theirs = FrameBuffer(max_frame_bytes=64), FrameDecoder(max_frame_bytes=64)
    assert outcome(lambda some: receive(ours, some)) == outcome(theirs.feed)


# --- what is in them
# ------------------------------------------------------------------------------------------------

FIELDS = {
    "nextBeginOffset": "40",
    "minOffset": "1",
    "maxOffset": "90",
    "suggestWhichBrokerId": "1",
    "other": "x",
}


@pytest.mark.parametrize("form", [0, 1])
def test_an_answer_is_read_in_both_forms(form: int) -> None:
    header = encode_header(
        RemotingCommand(code=0, flag=1, opaque=7, remark="FOUND", ext_fields=FIELDS), form
    )
    answer = read_answer(form, header)
    assert answer is not None
    assert (answer.code, answer.opaque, answer.remark, answer.header) == (
        0,
        7,
        "FOUND",
        PullHeader(40, 1, 90, 1),
    )


def test_json_as_others_write_it_is_read() -> None:
    answer = read_answer(
        0, b'{"code":"1","extFields":null,"flag":1,"opaque":7,"remark":null,"new":[]}'
    )
    assert answer is not None
    assert (answer.code, answer.header.next_begin_offset) == (1, -1)


def test_a_request_of_the_broker_is_no_answer() -> None:
    assert read_answer(0, encode_header(RemotingCommand(code=40, opaque=7))) is None


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"{",
        b'{"code":0,"flag":1,"opaque":1,"extFields":{"nextBeginOffset":"x"}}',
        b'{"code":0,"a":' + b"[" * 5000,
    ],
)
def test_what_is_no_answer_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="the answer to a pull cannot be read"):
        read_answer(0, header)
