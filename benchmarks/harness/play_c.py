"""The player in C (``benchmarks/c/player.c``) as a Python object; ctypes lets the interpreter go on
meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from .figures import BenchmarkError
from .play import KEY_HOLE, Frames, Played


class _Result(ctypes.Structure):
    """``struct result``."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("answers", "messages", "errors", "bytes")),
        *((name, ctypes.c_double) for name in ("seconds", "p50_us", "p99_us", "p999_us", "max_us")),
        ("problem", ctypes.c_char * 256),
    )


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path), use_errno=True)
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double
    result = ctypes.POINTER(_Result)
    library.player_open.restype = handle
    library.player_open.argtypes = [text, ctypes.c_int, ctypes.c_int]
    library.player_close.argtypes = [handle]
    library.player_close.restype = None
    library.player_frames.argtypes = [
        handle,
        text,
        handle,
        ctypes.c_uint32,
        handle,
        handle,
        ctypes.c_uint32,
    ]
    library.player_frames.restype = None
    library.player_offsets.argtypes = [handle, ctypes.c_int, handle]
    library.player_offsets.restype = None
    library.player_play.argtypes = [handle, ctypes.c_int, ctypes.c_int, number, result]
    library.player_transact.argtypes = [handle, text, ctypes.c_int, number, result]
    library.player_relay.argtypes = [
        handle,
        ctypes.c_int,
        text,
        number,
        ctypes.c_int,
        number,
        result,
    ]
    return library


class NativePlayer:
    """See ``play.Player``."""

    def __init__(self, library: Path, port: int, connections: int, frames: Frames) -> None:
        """Raises ``BenchmarkError`` when the server cannot be reached."""
        self._library = _load(library)
        self._handle = self._library.player_open(b"127.0.0.1", port, connections)
        self._begun = False
        if not self._handle:
            raise BenchmarkError(f"cannot connect to port {port}: {ctypes.get_errno()}")
        keys: list[int] = []
        starts = [0]
        hole = KEY_HOLE.encode()
        for frame in frames.frames:
            at = frame.find(hole)
            while at >= 0:
                keys.append(at)
                at = frame.find(hole, at + len(hole))
            starts.append(len(keys))
        self._library.player_frames(
            self._handle, b"".join(frames.frames),
            _numbers([len(frame) for frame in frames.frames]), len(frames.frames),
            _numbers(keys), _numbers(starts), frames.messages_each,
        )  # fmt: skip

    def play(self, window: int, seconds: float, *, awake: bool = False) -> Played:
        result = _Result()
        self._library.player_play(self._handle, window, awake, seconds, ctypes.byref(result))
        return _played(result)

    def transact(self, end_format: str, oneway: bool, seconds: float) -> Played:
        result = _Result()
        self._library.player_transact(
            self._handle, end_format.encode(), oneway, seconds, ctypes.byref(result)
        )
        return _played(result)

    def relay(
        self,
        senders: int,
        offsets: Sequence[int],
        pull_format: str,
        rate: float,
        window: int,
        seconds: float,
    ) -> Played:
        if not self._begun:
            self._begun = True
            self._library.player_offsets(
                self._handle, senders, (ctypes.c_uint64 * len(offsets))(*offsets)
            )
        result = _Result()
        call = self._library.player_relay
        call(
            self._handle, senders, pull_format.encode(), rate, window, seconds, ctypes.byref(result)
        )
        return _played(result)

    def close(self) -> None:
        self._library.player_close(self._handle)


def _numbers(values: list[int]) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * max(1, len(values)))(*values)


def _played(result: _Result) -> Played:
    problem = result.problem.decode(errors="replace")
    return Played(
        result.answers, result.messages, result.errors, max(result.seconds, 1e-9), result.p50_us,
        result.p99_us,
        result.p999_us, problem,
    )  # fmt: skip
