"""The header forms: JSON (0), ROCKETMQ (1) and MSGPACK (0x4D, our extension), between bytes and
``RemotingCommand``.

This is the general route, for every command and every form. The dispatcher has a shorter one for
JSON headers of known requests (``remoting/dispatch.py``) that must give the same result.

ROCKETMQ (class RocketMQSerializable, ``remoting.md`` §1.4)::

    2 code  1 language  2 version  4 opaque  4 flag  4 remarkLen  n remark  4 extLen  then repeated:
    2 keyLen  k key  4 valueLen  v value

MSGPACK: one array ``[code, language, version, opaque, flag, remark, {name: text}]``, language as
its number or nil.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any

import msgspec

from ..codes import VERSION, LanguageCode
from ..fastjson import reader as fastjson
from ..fastjson import writer as fastjson_writer
from ..wire import i32, to_text

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


class SerializeType(IntEnum):
    """Byte 4 of a frame."""

    JSON = 0
    ROCKETMQ = 1
    MSGPACK = 0x4D


MAX_TOLERANT_BYTES = 24 * 1024
"""The longest JSON header that may take fastjson's liberties: reading those takes a microsecond per
byte."""


class HeaderError(ValueError):
    """The bytes of a header cannot be read in the form that the frame names. The connection cannot
    be trusted any more."""


class TooManyKeysError(HeaderError):
    """The header can be read, but has more pairs than is allowed; its sender can be told."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the header has more than {limit} keys, the limit is maxHeaderKeys={limit}"
        )


class RemotingCommand(msgspec.Struct, kw_only=True):
    """A header as every form can carry it; its fields are still text."""

    code: int
    language: LanguageCode | None = LanguageCode.PYTHON
    version: int = VERSION
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = None

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)


_LANGUAGES = {language.name: language for language in LanguageCode}
_LANGUAGE_NUMBERS = {language.value: language for language in LanguageCode}


def decode_header(serialize_type: int, header: bytes, *, max_keys: int = 2**31) -> RemotingCommand:
    """Raises ``TooManyKeysError``, and ``HeaderError`` when the header cannot be read or its form
    is unknown."""
    if serialize_type == SerializeType.JSON:
        return _decode_json(header, max_keys)
    if serialize_type == SerializeType.ROCKETMQ:
        return _decode_rocketmq(header, max_keys)
    if serialize_type == SerializeType.MSGPACK:
        return _decode_msgpack(header, max_keys)
    raise HeaderError(f"unknown serialize type {serialize_type}")


def decode_head(serialize_type: int, header: bytes) -> RemotingCommand:
    """Only code, opaque and flag, of a header of any size: 16 MiB take 5 ms. Raises
    ``HeaderError``."""
    if serialize_type == SerializeType.JSON:
        try:
            head = _decode_json_head(header)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HeaderError(f"header is no JSON: {error}") from None
        code, opaque, flag = head.code, head.opaque, head.flag
    elif serialize_type == SerializeType.ROCKETMQ:
        if len(header) < _FIXED.size:
            raise HeaderError("binary header ends too early")
        code, _, _, opaque, flag, _ = _FIXED.unpack_from(header)
    elif serialize_type == SerializeType.MSGPACK:
        import msgpack  # in all three: only our own clients speak it, when they are told to

        unpacker = msgpack.Unpacker(max_buffer_size=_MSGPACK_HEAD_BYTES)  # else it takes a MiB
        unpacker.feed(header[:_MSGPACK_HEAD_BYTES])
        try:
            unpacker.read_array_header()
            values = dict(
                zip(("code", "language", "version", "opaque", "flag"), unpacker, strict=False)
            )
        except (ValueError, msgpack.UnpackException) as error:
            raise HeaderError(f"header is no MSGPACK header: {error}") from None
        code, opaque, flag = (
            _number(values, "code", None),
            _number(values, "opaque", 0),
            _number(values, "flag", 0),
        )
    else:
        raise HeaderError(f"unknown serialize type {serialize_type}")
    return RemotingCommand(code=code, opaque=opaque, flag=flag)


def encode_header(command: RemotingCommand, serialize_type: int = SerializeType.JSON) -> bytes:
    """Raises ``ValueError`` when the form cannot carry the command (a code over 32767 in
    ROCKETMQ)."""
    if serialize_type == SerializeType.JSON:
        return _encode_json(command)
    if serialize_type == SerializeType.ROCKETMQ:
        return _encode_rocketmq(command)
    if serialize_type == SerializeType.MSGPACK:
        return _encode_msgpack(command)
    raise ValueError(f"unknown serialize type {serialize_type}")


# --- JSON
# --------------------------------------------------------------------------------------------------


class _JsonHead(msgspec.Struct):
    code: i32
    opaque: i32 = 0
    flag: i32 = 0


_decode_json_head = msgspec.json.Decoder(_JsonHead, strict=False).decode


def _decode_json(header: bytes, max_keys: int) -> RemotingCommand:
    try:
        values = msgspec.json.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if len(header) > MAX_TOLERANT_BYTES:
            raise HeaderError(
                f"header of {len(header)} bytes is no standard JSON: {error}"
            ) from None
        try:
            values = fastjson.loads(header.decode("utf-8", "replace"))
        except ValueError as error:
            raise HeaderError(f"header is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise HeaderError("header is no JSON object")
    ext_fields = values.get("extFields")
    if ext_fields is not None and not isinstance(ext_fields, dict):
        raise HeaderError("extFields is no JSON object")
    if ext_fields is not None and len(ext_fields) > max_keys:
        raise TooManyKeysError(max_keys)
    remark = values.get("remark")
    return RemotingCommand(
        code=_number(values, "code", None),
        language=_language(values.get("language", "JAVA")),
        version=_number(values, "version", 0),
        opaque=_number(values, "opaque", 0),
        flag=_number(values, "flag", 0),
        remark=None if remark is None else _text(remark),
        ext_fields=None
        if ext_fields is None
        else {_text(k): _text(v) for k, v in ext_fields.items() if v is not None},
    )


def _number(values: dict[str, Any], key: str, default: int | None) -> int:
    value = values.get(key, default)
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    if value is None and default is not None:
        return default
    try:
        number = msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError:
        number = None
    if number is None or type(value) is bool or not -(2**31) <= number < 2**31:
        raise HeaderError(f"'{key}' of the header is no 32-bit number")
    return number


def _language(value: object) -> LanguageCode | None:
    if isinstance(value, str):
        return _LANGUAGES.get(value)
    return _LANGUAGE_NUMBERS.get(value) if isinstance(value, int) else None


def _text(value: object) -> str:
    """Values that are no text become text, as the original's parser does; lone surrogates cannot be
    stored, so ``?``."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool | int | float):
        text = to_text(value)
    else:
        text = fastjson_writer.dumps(value).decode()
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_json_encode = msgspec.json.Encoder().encode


def _encode_json(command: RemotingCommand) -> bytes:
    """Keys in alphabetical order and without nulls, as fastjson writes the original's bean."""
    values: dict[str, Any] = {"code": command.code}
    if command.ext_fields is not None:
        values["extFields"] = command.ext_fields
    values["flag"] = command.flag
    if command.language is not None:
        values["language"] = command.language.name
    values["opaque"] = command.opaque
    if command.remark is not None:
        values["remark"] = command.remark
    values["serializeTypeCurrentRPC"] = "JSON"
    values["version"] = command.version
    return _json_encode(values)


# --- ROCKETMQ
# --------------------------------------------------------------------------------------------------

_FIXED = Struct(">hbhiii")
_INT = Struct(">i")
_SHORT = Struct(">h")


def _decode_rocketmq(header: bytes, max_keys: int) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        position = _FIXED.size
        remark, position = _sized_text(header, position, remark_length)
        (ext_length,) = _INT.unpack_from(header, position)
        position += 4
        if ext_length < 0 or position + ext_length > len(header):
            raise HeaderError(f"extFields of {ext_length} bytes in a header of {len(header)}")
        ext_fields = (
            _decode_ext(header, position, position + ext_length, max_keys) if ext_length else None
        )
    except StructError:
        raise HeaderError("binary header ends too early") from None
    except UnicodeDecodeError:
        raise HeaderError("binary header holds bytes that are no UTF-8") from None
    return RemotingCommand(
        code=code,
        language=_LANGUAGE_NUMBERS.get(language),
        version=version,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        ext_fields=ext_fields,
    )


def _sized_text(data: bytes, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if length < 0 or end > len(data):
        raise HeaderError(f"text of {length} bytes at {position} in a header of {len(data)}")
    return data[position:end].decode(), end


def _decode_ext(data: bytes, position: int, end: int, max_keys: int) -> dict[str, str]:
    """A length of 0 is null to the original, so such a pair is absent. Of equal keys the last one
    counts."""
    fields: dict[str, str] = {}
    unpack_short, unpack_int, limit = _SHORT.unpack_from, _INT.unpack_from, len(data)
    while position < end:
        (key_length,) = unpack_short(data, position)
        key_end = position + 2 + key_length
        (value_length,) = unpack_int(data, key_end) if key_length >= 0 else (-1,)
        value_at = key_end + 4
        following = value_at + value_length
        if value_length < 0 or following > limit:
            raise HeaderError(
                f"a pair of extFields at {position} does not fit a header of {limit} bytes"
            )
        if key_length and value_length:
            fields[data[position + 2 : key_end].decode()] = data[value_at:following].decode()
            if len(fields) > max_keys:
                raise TooManyKeysError(max_keys)
        position = following
        if position > end:
            raise HeaderError("a pair of extFields is longer than the block")
    return fields


def _encode_rocketmq(command: RemotingCommand) -> bytes:
    if not -(2**15) <= command.code < 2**15:
        raise ValueError(
            f"code {command.code} does not fit into a binary header; use JSON for this command"
        )
    language = LanguageCode.OTHER if command.language is None else command.language
    remark = (command.remark or "").encode()
    pairs: list[bytes] = []
    for key, value in (command.ext_fields or {}).items():
        text = value.encode()
        pairs += (_key(key), _INT.pack(len(text)), text)
    ext = b"".join(pairs)
    version = min(command.version, 2**15 - 1)
    fixed = _FIXED.pack(command.code, language, version, command.opaque, command.flag, len(remark))
    return b"".join((fixed, remark, _INT.pack(len(ext)), ext))


@functools.lru_cache(1000)
def _key(key: str) -> bytes:
    name = key.encode()
    return _SHORT.pack(len(name)) + name


# --- MSGPACK
# --------------------------------------------------------------------------------------------------


_MSGPACK_HEAD_BYTES = 1 + 5 * 9


def _decode_msgpack(header: bytes, max_keys: int) -> RemotingCommand:
    import msgpack

    try:
        values = msgpack.unpackb(header, strict_map_key=True)
        code, language, version, opaque, flag, remark, ext_fields = values
        if ext_fields is not None and len(ext_fields) > max_keys:
            raise TooManyKeysError(max_keys)
        return RemotingCommand(
            code=_number({"code": code}, "code", None),
            language=_LANGUAGE_NUMBERS.get(language),
            version=_number({"version": version}, "version", 0),
            opaque=_number({"opaque": opaque}, "opaque", 0),
            flag=_number({"flag": flag}, "flag", 0),
            remark=None if remark is None else _text(remark),
            ext_fields=None
            if ext_fields is None
            else {_text(k): _text(v) for k, v in ext_fields.items() if v is not None},
        )
    except HeaderError:
        raise
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise HeaderError(f"header is no MSGPACK header: {error}") from None


def _encode_msgpack(command: RemotingCommand) -> bytes:
    import msgpack

    language = None if command.language is None else int(command.language)
    values = [
        command.code,
        language,
        command.version,
        command.opaque,
        command.flag,
        command.remark,
        command.ext_fields,
    ]
    packed: bytes = msgpack.packb(values)
    return packed
