"""Python twin of ``frames.pxi``: frames out of what was received. Their layout is at
``frames/frame.py``."""

from __future__ import annotations

from struct import Struct
from typing import Final

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""The longest frame, its 4 length bytes included (property
``com.rocketmq.remoting.frameMaxLength``)."""
PREFIX_BYTES: Final = 8
LONG_HEADER: Final = 0x100
"""Stands in the serialize type of a frame whose header is longer than usual: it is to be looked at
before it is read."""
SMALL_BODY: Final = 2048
"""Bytes up to which a body is copied: that is cheaper than a view, and cheaper to work with."""
MOST_FRAMES: Final = 4096
"""In one call: so many take a fifth of a millisecond (compiled), and 16 MiB may hold two
million."""

_unpack_prefix: Final = Struct(">II").unpack_from

Frame = tuple[int, bytes, bytes | memoryview]
"""One frame as cut from the stream: serialize type, header, body. Nothing is decoded yet. (A plain
tuple: it is made once per request, and a named one costs a fifth of a microsecond more.)"""


def split_frames(
    data: bytes, start: int, max_total: int, long_header: int, /
) -> tuple[list[Frame], int, int]:
    """The whole frames in ``data`` from ``start`` on, ``MOST_FRAMES`` at most; where they end; and
    what has to be there from there on, in bytes, before going on is worth a try: 0 at the end of
    the data, -1 where what follows is no frame.

    ``max_total`` is the greatest length that may stand in front of a frame. Frames with longer
    headers than ``long_header`` are marked with ``LONG_HEADER``.
    """
    frames: list[Frame] = []
    position, end = start, len(data)
    while end - position >= PREFIX_BYTES:
        total, form = _unpack_prefix(data, position)
        header_length = form & 0xFFFFFF
        if total > max_total or header_length + 4 > total:
            return frames, position, -1
        frame_end = position + 4 + total
        if frame_end > end or len(frames) == MOST_FRAMES:
            return frames, position, 4 + total
        header_start = position + PREFIX_BYTES
        body_start = header_start + header_length
        small = frame_end - body_start <= SMALL_BODY
        body = data[body_start:frame_end] if small else memoryview(data)[body_start:frame_end]
        mark = LONG_HEADER if header_length > long_header else 0
        frames.append((form >> 24 | mark, data[header_start:body_start], body))
        position = frame_end
    if (
        end - position >= 4
        and not 4 <= int.from_bytes(data[position : position + 4], "big") <= max_total
    ):
        return (
            frames,
            position,
            -1,
        )  # garbage is refused as soon as its first four bytes say so, not when eight are there
    return frames, position, PREFIX_BYTES if position < end else 0
