"""Frames out of a stream: compiled and in Python. What ``FrameDecoder`` makes of them:
``test_frame.py``."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import pure_frames as pure

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
MAX_TOTAL = 8192


def frame(header: bytes, body: bytes = b"", form: int = 0) -> bytes:
    return pack(">II", 4 + len(header) + len(body), form << 24 | len(header)) + header + body


def plain(result: Any) -> Any:
    """Views as what they show, told apart from copies."""
    if not isinstance(result[0], list):
        return result
    frames, position, needed = result
    return (
        [(form, header, type(body), bytes(body)) for form, header, body in frames],
        position,
        needed,
    )


def check(data: bytes, start: int = 0, max_total: int = MAX_TOTAL, long_header: int = 300) -> Any:
    found, expected = (
        plain(outcome(split, data, start, max_total, long_header))
        for split in (compiled.split_frames, pure.split_frames)
    )
    assert found == expected
    return found


frames = st.builds(
    frame,
    st.binary(max_size=40) | st.integers(290, 310).map(bytes),
    st.binary(max_size=40) | st.integers(2040, 2056).map(bytes),
    st.sampled_from([0, 1, 0x4D, 255]),
)


@given(st.lists(frames, max_size=5), st.binary(max_size=12), st.data())
def test_any_stream(pieces: list[bytes], rest: bytes, data: st.DataObject) -> None:
    stream = bytearray(b"".join(pieces) + rest)
    for _ in range(data.draw(st.integers(0, 2))):
        if stream:
            stream[data.draw(st.integers(0, min(20, len(stream)) - 1))] = data.draw(
                st.integers(0, 255)
            )
    check(bytes(stream), data.draw(st.integers(0, len(stream) + 3)))


def test_every_split() -> None:
    """Copied, so that a sanitizer sees whoever reads on."""
    stream = (
        frame(b"one", b"body")
        + frame(b"", b"x" * 2049)
        + frame(b"h" * 301, b"y" * 2048, 1)
        + frame(b"")
    )
    for end in range(len(stream) + 1):
        piece = bytes(bytearray(stream[:end]))
        _, position, needed = check(piece)
        if needed and end > position:
            assert needed > end - position, "what is whole is cut"
        check(piece, position)


@pytest.mark.parametrize(
    ("data", "needed"),
    [
        (b"", 0),
        (b"\0\0\0", 8),
        (b"\0\0\0\4", 8),
        (b"\0\0\0\3", -1),
        (b"GET ", -1),
        (b"\xff\xff\xff\xff", -1),
        (b"\0\0\0\4\0\0\0", 8),
        (b"\0\0\0\4\0\0\0\1", -1),
        (b"\0\0\0\5\0\0\0\1", 9),
        (pack(">II", MAX_TOTAL, 0), MAX_TOTAL + 4),
        (pack(">II", MAX_TOTAL + 1, 0), -1),
    ],
)
def test_what_is_needed(data: bytes, needed: int) -> None:
    assert check(data) == ([], 0, needed)


def test_a_call_is_bounded() -> None:
    count = pure.MOST_FRAMES
    frames, position, needed = check(frame(b"") * (count + 2))
    assert (len(frames), position, needed) == (count, 8 * count, 8)
    assert len(check(frame(b"") * (count + 2), position)[0]) == 2


def test_a_view_keeps_what_it_shows() -> None:
    [(_, _, body)], _, _ = compiled.split_frames(frame(b"h", b"z" * 5000), 0, MAX_TOTAL, 300)
    assert bytes(body) == b"z" * 5000


def test_only_bytes_are_cut() -> None:
    for wrong in (bytearray(8), memoryview(bytes(8)), None, "text"):
        with pytest.raises(TypeError):
            compiled.split_frames(wrong, 0, MAX_TOTAL, 300)
