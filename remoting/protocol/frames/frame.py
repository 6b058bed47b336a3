"""Frames: the envelope of everything that crosses a connection (``remoting.md`` §1.1; classes
NettyEncoder, NettyDecoder).

::

    0    4  totalLength    4 + headerLength + bodyLength (does not count itself)
    4    1  serializeType  0 JSON, 1 ROCKETMQ, 0x4D MSGPACK (ours)
    5    3  headerLength   unsigned
    8    H  header
    8+H  B  body

``FrameDecoder`` takes bytes as they arrive, in any split, and cuts frames. A large body is a view
into what was received: valid until the next ``feed``, copied by whoever keeps it. After
``FrameError`` the stream has no known position any more and the connection must be closed.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ..leaves import split_frames
from ..leaves.pure_frames import LONG_HEADER as LONG_HEADER
from ..leaves.pure_frames import MAX_FRAME_BYTES as MAX_FRAME_BYTES
from ..leaves.pure_frames import PREFIX_BYTES as PREFIX_BYTES
from ..leaves.pure_frames import SMALL_BODY
from ..leaves.pure_frames import Frame as Frame

_SMALL_CHUNK = 8192
pack_prefix: Final = Struct(">II").pack


class FrameError(ValueError):
    """The peer does not speak this protocol (or the frame is over the cap). The connection cannot
    be used any more."""


Body = bytes | memoryview
"""The body of a frame: a copy when it is small (cheaper to make and to work with), else a view into
what was received."""


def encode_prefix(serialize_type: int, header_length: int, body_length: int) -> bytes:
    """The first 8 bytes of a frame. Raises ``FrameError`` for one over the cap: a peer would close
    the connection."""
    total = 4 + header_length + body_length
    if total > MAX_FRAME_BYTES - 4 or header_length > 0xFFFFFF:
        raise FrameError(
            f"a frame of {total + 4} bytes is over the limit of {MAX_FRAME_BYTES}; send smaller "
            "bodies"
        )
    return pack_prefix(total, serialize_type << 24 | header_length)


def encode_frame(
    serialize_type: int, header: bytes, body: bytes | bytearray | memoryview = b""
) -> bytes:
    """One frame as bytes. Raises ``FrameError``."""
    prefix = encode_prefix(serialize_type, len(header), len(body))
    return b"".join((prefix, header, body)) if len(body) else prefix + header


class FrameDecoder:
    """Cuts a byte stream into frames; any split of the stream gives the same frames.

    Invariant: at most one incomplete frame is held, so never more than ``max_frame_bytes`` plus one
    read.
    """

    __slots__ = ("_chunks", "_long_header", "_max_total", "_needed", "held")

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, *, long_header_bytes: int = 1 << 24
    ) -> None:
        """Frames with longer headers than ``long_header_bytes`` (at least 2,048) are marked with
        ``LONG_HEADER``."""
        self._max_total = max_frame_bytes - 4
        self._long_header = max(SMALL_BODY, long_header_bytes)
        self._chunks: list[bytes] = []  # the incomplete frame, in the pieces in which it arrived
        self.held: int = 0
        """Bytes of the incomplete frame at the end of what was fed."""
        self._needed = 0  # bytes that must be there before cutting is worth a try

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next piece of the stream, return the frames that it completes.

        Raises ``BrokenStream`` for a length over the cap or a header that does not fit its frame.
        The frames before the bad one are in the error's ``frames`` attribute.
        """
        if self.held:
            self._append(data)
            self.held += len(data)
            if self.held < self._needed:
                return []
            data = b"".join(self._chunks)
            self.drop()
        frames, position, needed = split_frames(data, 0, self._max_total, self._long_header)
        while 0 < needed <= len(data) - position:
            more, position, needed = split_frames(
                data, position, self._max_total, self._long_header
            )
            frames += more
        if needed < 0:
            raise self._broken(data, position, frames)
        if needed:
            self._chunks.append(data[position:] if position else data)
            self.held = len(data) - position
            self._needed = needed
        return frames

    def drop(self) -> None:
        """Forget the incomplete frame: nothing more will come."""
        self._chunks.clear()
        self.held = 0

    def _append(self, data: bytes) -> None:
        """Bytes that come in ones and twos are put together: as pieces they would take twenty times
        their size."""
        if len(self._chunks[-1]) < _SMALL_CHUNK:
            self._chunks[-1] += data
        else:
            self._chunks.append(data)

    def _broken(self, data: bytes, position: int, frames: list[Frame]) -> BrokenStream:
        prefix = data[position : position + PREFIX_BYTES]
        total = int.from_bytes(prefix[:4], "big")
        header_length = int.from_bytes(prefix[5:], "big") if len(prefix) == PREFIX_BYTES else 0
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
    """``FrameDecoder.feed`` met bytes that are no frame; ``frames`` holds the good ones before
    them."""

    frames: list[Frame]
