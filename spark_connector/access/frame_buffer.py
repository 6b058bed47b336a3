"""Frames where they arrived: bytes are received into large buffers and never moved again, but for
what was cut in two.

``remoting/protocol/frames/frame.py`` has the layout, and a decoder for whoever gets bytes from an
event loop. Here the records of many answers are to lie in one buffer, so that they can be decoded
together without being joined before.
"""

from __future__ import annotations

import weakref
from struct import Struct
from typing import Any, Final

import msgspec

from ...remoting.protocol.frames.frame import MAX_FRAME_BYTES, PREFIX_BYTES, FrameError

__all__ = ["FrameBuffer", "PlacedFrame", "Stretch", "stretch_of"]

_BUFFER_BYTES: Final = 4 << 20
_MOST_SPARE: Final = 2
_unpack_prefix: Final = Struct(">II").unpack_from
_MIN_FREE: Final = 64 << 10
"""With less free space a new buffer is begun: many small reads cost more than what is moved."""


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Bytes ``begin`` to before ``end`` of a buffer that nobody changes any more."""

    buffer: memoryview
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def view(self) -> memoryview:
        return self.buffer[self.begin : self.end]


PlacedFrame = tuple[int, bytes, Stretch]
"""Serialize type, header, body."""


def stretch_of(data: bytes | memoryview) -> Stretch:
    """All of some bytes."""
    return Stretch(memoryview(data), 0, len(data))


class FrameBuffer:
    """Receive into ``get_buffer()``, then say how much came with ``buffer_updated()``, as with an
    ``asyncio.BufferedProtocol``.

    A buffer that is full is left to those who hold stretches of it, and another one is begun.
    Invariant: what is not cut yet is less than one frame, or one read.
    """

    def __init__(
        self, buffer_bytes: int = _BUFFER_BYTES, max_frame_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        self._buffer_bytes = buffer_bytes
        self._min_free = min(_MIN_FREE, buffer_bytes // 4)
        self._max_total = max_frame_bytes - 4
        self._buffer = memoryview(b"")
        self._at = self._end = 0
        self._needed = PREFIX_BYTES
        """Bytes from ``_at`` on that the next frame takes, as far as that is known."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._end + self._min_free > len(self._buffer):
            rest = self._buffer[self._at : self._end]
            self._buffer = _new_buffer(
                max(self._buffer_bytes, len(rest) + self._min_free, self._needed)
            )
            self._buffer[: len(rest)] = rest
            self._at, self._end = 0, len(rest)
        return self._buffer[self._end :]

    def buffer_updated(self, count: int) -> list[PlacedFrame]:
        """So many bytes came: the frames that are whole now. Raises ``FrameError``; then the
        connection must be closed."""
        buffer, at = self._buffer, self._at
        self._end = end = self._end + count
        frames: list[PlacedFrame] = []
        needed = PREFIX_BYTES
        while end - at >= PREFIX_BYTES:
            total, form = _unpack_prefix(buffer, at)
            header_length = form & 0xFFFFFF
            if total > self._max_total or header_length + 4 > total:
                raise FrameError(f"a frame of {total + 4} bytes with a header of {header_length}")
            if at + 4 + total > end:
                needed = 4 + total
                break
            body = at + PREFIX_BYTES + header_length
            frame_end = at + 4 + total
            frames.append(
                (
                    form >> 24,
                    bytes(buffer[at + PREFIX_BYTES : body]),
                    Stretch(buffer, body, frame_end),
                )
            )
            at = frame_end
        self._at, self._needed = at, needed
        return frames

    def release(self) -> None:
        """Nothing is expected for a while: do not keep the buffer. There must be no rest."""
        if self._at == self._end:
            self._buffer = memoryview(b"")
            self._at = self._end = 0


def _new_buffer(size: int) -> memoryview:
    """Numpy does not clear it first, as ``bytearray`` does. One that nobody looks at any more is
    used again: pages that are new to a process cost more than what is copied into them."""
    import numpy as np  # not on the driver

    if size != _BUFFER_BYTES:
        return np.empty(size, np.uint8).data
    try:
        whole = _spare.pop()
    except IndexError:
        whole = np.empty(size, np.uint8)
    lent = whole[:]  # as every view of a view does, it lives until nobody looks
    weakref.finalize(lent, _take_back, whole).atexit = False
    shown: memoryview = lent.data
    return shown


_spare: Final[list[Any]] = []
"""Buffers of this process."""


def _take_back(whole: Any) -> None:
    if len(_spare) < _MOST_SPARE:
        _spare.append(whole)
