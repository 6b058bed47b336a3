import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.frames.frame import (
    BrokenStream,
    FrameDecoder,
    FrameError,
    encode_frame,
)

frames = st.lists(
    st.tuples(st.sampled_from([0, 1, 0x4D, 7]), st.binary(max_size=60), st.binary(max_size=300)),
    max_size=8,
)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    positions = sorted({c % (len(stream) + 1) for c in cuts} | {0, len(stream)})
    return [stream[a:b] for a, b in itertools.pairwise(positions)]


@given(frames, st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_the_stream_gives_the_same_frames(
    sent: list[tuple[int, bytes, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode_frame(*frame) for frame in sent)
    decoder = FrameDecoder()
    received = [
        (t, bytes(h), bytes(b)) for piece in cut(stream, cuts) for t, h, b in decoder.feed(piece)
    ]
    assert received == sent
    assert decoder.held == 0


@given(frames, st.integers(1, 400))
def test_an_incomplete_frame_is_held_and_nothing_more(
    sent: list[tuple[int, bytes, bytes]], keep: int
) -> None:
    last = encode_frame(0, b"h" * 40, b"b" * 400)[:keep]
    decoder = FrameDecoder()
    assert len(decoder.feed(b"".join(encode_frame(*frame) for frame in sent) + last)) == len(sent)
    assert decoder.held == len(last)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"\xff\xff\xff\xff\x00\x00\x00\x02{}", "negative"),
        (b"\x7f\xff\xff\xff\x00\x00\x00\x02{}", "limit"),
        (b"\x01\x00\x00\x00\x00\x00\x00\x02", "limit"),
        (b"GET / HTTP/1.1\r\n\r\n", "this is HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "this is HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "this is TLS"),
        (b"GETS and more", "limit"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x03{}", "header of 3 bytes"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "header of 0 bytes"),
        (b"\xff\xff\xff\xff", "negative"),
    ],
)
def test_bytes_that_are_no_frame_are_refused_after_the_good_ones(bad: bytes, why: str) -> None:
    with pytest.raises(BrokenStream, match=why) as caught:
        FrameDecoder().feed(encode_frame(0, b"{}", b"body") + bad)
    assert [(t, bytes(h), bytes(b)) for t, h, b in caught.value.frames] == [(0, b"{}", b"body")]


def test_the_cap_counts_the_length_bytes() -> None:
    longest = encode_frame(0, b"{}", bytes(16 * 1024 * 1024 - 10))
    assert len(longest) == 16 * 1024 * 1024
    assert len(FrameDecoder().feed(longest)) == 1
    with pytest.raises(FrameError, match="over the limit"):
        encode_frame(0, b"{}", bytes(16 * 1024 * 1024 - 9))


def test_a_frame_that_comes_in_tiny_pieces_takes_little_memory() -> None:
    decoder = FrameDecoder()
    data = encode_frame(0, b"{}", bytes(100_000))
    for at in range(0, len(data) - 2, 2):
        assert decoder.feed(data[at : at + 2]) == []
    assert len(decoder._chunks) < 20
    [(_, header, body)] = decoder.feed(data[-2:])
    assert (header, bytes(body)) == (b"{}", bytes(100_000))
