"""Frames: the envelope of everything that crosses a connection (``remoting.md`` §1.1; classes NettyEncoder, NettyDecoder).

::

    0    4  totalLength    4 + headerLength + bodyLength (does not count itself)
    4    1  serializeType  0 JSON, 1 ROCKETMQ, 0x4D MSGPACK (ours)
    5    3  headerLength   unsigned
    8    H  header
    8+H  B  body

``FrameDecoder`` takes bytes as they arrive, in any split, and cuts frames. A large body is a view into what was received:
valid until the next ``feed``, copied by whoever keeps it. After ``FrameError`` the stream has no known position any more
and the connection must be closed.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The longest frame, its 4 length bytes included (property ``com.rocketmq.remoting.frameMaxLength``)."""

PREFIX_BYTES = 8
LONG_HEADER: Final = 0x100
"""Stands in the serialize type of a frame whose header is longer than usual: it is to be looked at before it is read."""
_SMALL_CHUNK = 8192
_PREFIX = Struct(">II")
_unpack_prefix = _PREFIX.unpack_from
pack_prefix: Final = _PREFIX.pack


class FrameError(ValueError):
    """The peer does not speak this protocol (or the frame is over the cap). The connection cannot be used any more."""


Body = bytes | memoryview
"""The body of a frame: a copy when it is small (cheaper to make and to work with), else a view into what was received."""

Frame = tuple[int, bytes, Body]
"""One frame as cut from the stream: serialize type, header, body. Nothing is decoded yet. (A plain tuple: it is made once
per request, and a named one costs a fifth of a microsecond more.)"""

_SMALL_BODY = 2048


def encode_frame(serialize_type: int, header: bytes, body: bytes | bytearray | memoryview = b"") -> bytes:
    """One frame as bytes. Raises ``FrameError`` when it would be over the cap: a peer would close the connection."""
    header_length = len(header)
    total = 4 + header_length + len(body)
    if total > MAX_FRAME_BYTES - 4 or header_length > 0xFFFFFF:
        raise FrameError(f"a frame of {total + 4} bytes is over the limit of {MAX_FRAME_BYTES}; send smaller bodies")
    prefix = _PREFIX.pack(total, serialize_type << 24 | header_length)
    return b"".join((prefix, header, body)) if len(body) else prefix + header


class FrameDecoder:
    """Cuts a byte stream into frames; any split of the stream gives the same frames.

    Invariant: at most one incomplete frame is held, so never more than ``max_frame_bytes`` plus one read.
    """

    __slots__ = ("_chunks", "_long_header", "_max_total", "_needed", "_small", "held")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES, *, long_header_bytes: int = 1 << 24) -> None:
        """Frames with longer headers than ``long_header_bytes`` (at least 2,048) are marked with ``LONG_HEADER``."""
        self._max_total = max_frame_bytes - 4
        self._long_header = max(_SMALL_BODY, long_header_bytes)
        self._small = min(_SMALL_BODY, max_frame_bytes)
        self._chunks: list[bytes] = []  # the incomplete frame, in the pieces in which it arrived
        self.held: int = 0
        """Bytes of the incomplete frame at the end of what was fed."""
        self._needed = 0  # bytes that must be there before cutting is worth a try

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next piece of the stream, return the frames that it completes.

        Raises ``BrokenStream`` for a length over the cap or a header that does not fit its frame. The frames before the bad
        one are in the error's ``frames`` attribute.
        """
        end = len(data)
        if not self.held and end >= PREFIX_BYTES:  # mostly one read holds one frame
            total, form = _unpack_prefix(data)
            body_start = PREFIX_BYTES + (form & 0xFFFFFF)
            if total + 4 == end <= self._small and body_start <= end:
                return [(form >> 24, data[PREFIX_BYTES:body_start], data[body_start:])]
        if self.held:
            self._append(data)
            self.held += len(data)
            if self.held < self._needed:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self.held = 0
        frames: list[Frame] = []
        position, end, max_total = 0, len(data), self._max_total
        while end - position >= PREFIX_BYTES:
            total, form = _unpack_prefix(data, position)
            header_length = form & 0xFFFFFF
            if total > max_total or header_length + 4 > total:
                raise self._broken(total, header_length, frames)
            frame_end = position + 4 + total
            if frame_end > end:
                self._keep(data, position, 4 + total)
                return frames
            header_start = position + PREFIX_BYTES
            body_start = header_start + header_length
            small = frame_end - body_start <= _SMALL_BODY
            body = data[body_start:frame_end] if small else memoryview(data)[body_start:frame_end]
            mark = LONG_HEADER if header_length > self._long_header else 0
            frames.append((form >> 24 | mark, data[header_start:body_start], body))
            position = frame_end
        if position < end:
            self._check_early(data, position, end, frames)
            self._keep(data, position, PREFIX_BYTES)
        return frames

    def drop(self) -> None:
        """Forget the incomplete frame: nothing more will come."""
        self._chunks.clear()
        self.held = 0

    def _append(self, data: bytes) -> None:
        """Bytes that come in ones and twos are put together: as pieces they would take twenty times their size."""
        if len(self._chunks[-1]) < _SMALL_CHUNK:
            self._chunks[-1] += data
        else:
            self._chunks.append(data)

    def _keep(self, data: bytes, position: int, needed: int) -> None:
        rest = data[position:] if position else data
        self._chunks.append(rest)
        self.held = len(rest)
        self._needed = needed

    def _check_early(self, data: bytes, position: int, end: int, frames: list[Frame]) -> None:
        """Garbage is refused as soon as its first four bytes say so, not when eight are there."""
        if end - position >= 4:
            total = int.from_bytes(data[position : position + 4], "big")
            if total > self._max_total or total < 4:
                raise self._broken(total, 0, frames)

    def _broken(self, total: int, header_length: int, frames: list[Frame]) -> FrameError:
        if total >= 2**31:
            text = f"negative frame length {total - 2**32}"
        elif protocol := _other_protocol(total):
            text = f"this is {protocol}, not RocketMQ's protocol; look at the address and the port"
        elif total > self._max_total:
            text = f"frame of {total + 4} bytes, the limit is {self._max_total + 4}"
        else:
            text = f"header of {header_length} bytes in a frame of {total + 4}"
        error = BrokenStream(text)
        error.frames = frames
        return error


def _other_protocol(total: int) -> str | None:
    """What begins with these four bytes, if that is a likely mistake."""
    first = total.to_bytes(4, "big")
    if first in (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD"):
        return "HTTP"
    return "TLS" if first[:2] == b"\x16\x03" else None


class BrokenStream(FrameError):
    """``FrameDecoder.feed`` met bytes that are no frame; ``frames`` holds the good ones before them."""

    frames: list[Frame]
