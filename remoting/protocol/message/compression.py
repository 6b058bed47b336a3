"""Bodies compressed by the producer (message-encoding.md §4.7). The broker never looks inside.

ZLIB (a zlib container, not raw deflate) is always there. LZ4 (frame format) and ZSTD need the
packages ``lz4`` and ``zstandard`` (extras ``[lz4]``, ``[zstd]``), imported on first use.
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Final

from ..extras import install_command
from .sys_flag import MessageSysFlag, compression_type

MAX_DECOMPRESSED_BYTES: Final = 64 << 20
"""A few kilobytes must not become gigabytes. The original's own limit is 4 MiB, on the uncompressed
body."""

_PACKED_AT_ONCE: Final = 256
"""Bytes given to ZSTD at a time, which have no limit of their own: they become 8 MiB at most."""


class CompressionError(ValueError):
    """The body is not what its sysFlag says."""


class CompressionUnavailable(CompressionError):
    """The package for this kind of compression is not installed."""


def decompress_body(
    body: bytes | memoryview, sys_flag: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """The body as the sender had it; unchanged when bit 0 of the sysFlag is not set.

    Raises CompressionUnavailable when a package is missing, CompressionError when the data is
    damaged, of an unknown kind, or would become longer than ``max_bytes``.
    """
    if not sys_flag & MessageSysFlag.COMPRESSED:
        return bytes(body)
    match compression_type(sys_flag):
        case MessageSysFlag.COMPRESSION_ZLIB:
            return _inflate(body, max_bytes)
        case MessageSysFlag.COMPRESSION_LZ4:
            return _unpack_lz4(body, max_bytes)
        case MessageSysFlag.COMPRESSION_ZSTD:
            return _unpack_zstd(body, max_bytes)
        case unknown:
            raise CompressionError(
                f"unknown compression type {unknown >> 8} in sysFlag {sys_flag:#x}"
            )


def compress_body(body: bytes | memoryview, kind: int, level: int = 5) -> bytes:
    """Compress with one of MessageSysFlag.COMPRESSION_*; the sender sets ``COMPRESSED | kind`` in
    the sysFlag.
    """
    match kind:
        case MessageSysFlag.COMPRESSION_ZLIB:
            return zlib.compress(body, level)
        case MessageSysFlag.COMPRESSION_LZ4:
            return bytes(_package("lz4.frame").compress(bytes(body), compression_level=level))
        case MessageSysFlag.COMPRESSION_ZSTD:
            return bytes(_package("zstandard").ZstdCompressor(level=level).compress(bytes(body)))
        case unknown:
            raise CompressionError(f"unknown compression type {unknown >> 8}")


def _inflate(body: bytes | memoryview, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise CompressionError(f"the body is not zlib data: {error}") from error
    _check_size(len(data), max_bytes)
    if not inflater.eof:
        raise CompressionError("the zlib data of the body is cut short")
    return data


def _unpack_lz4(body: bytes | memoryview, max_bytes: int) -> bytes:
    unpacker = _package("lz4.frame").LZ4FrameDecompressor()
    try:
        data = bytes(unpacker.decompress(bytes(body), max_length=max_bytes + 1))
    except (RuntimeError, ValueError, EOFError) as error:
        raise CompressionError(f"the body is not an LZ4 frame: {error}") from error
    _check_size(len(data), max_bytes)
    if not unpacker.eof:
        raise CompressionError("the LZ4 frame of the body is cut short")
    return data


def _unpack_zstd(body: bytes | memoryview, max_bytes: int) -> bytes:
    package = _package("zstandard")
    unpacker = package.ZstdDecompressor().decompressobj()
    pieces, size, start = [], 0, 0
    try:
        while not unpacker.eof and start < len(body):
            pieces.append(unpacker.decompress(bytes(body[start : start + _PACKED_AT_ONCE])))
            start += _PACKED_AT_ONCE
            size += len(pieces[-1])
            _check_size(size, max_bytes)
    except package.ZstdError as error:
        raise CompressionError(f"the body is not a ZSTD frame: {error}") from error
    if not unpacker.eof:
        raise CompressionError("the ZSTD frame of the body is cut short")
    return b"".join(pieces)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise CompressionError(f"the body would be longer than {max_bytes} bytes when decompressed")


_EXTRAS: Final = {"lz4.frame": "lz4", "zstandard": "zstd"}


def _package(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise CompressionUnavailable(
            f"this message is compressed in a way that needs the package {package}: "
            f"{install_command(_EXTRAS[module])}"
        ) from error
