"""The answer to a request of ours, read. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from .errors import BrokerError, ProtocolError, broker_error
from .protocol.codes import RequestCode
from .protocol.commands import COMMANDS
from .protocol.frames.frame import LONG_HEADER
from .protocol.frames.serialization import (
    RESPONSE_FLAG,
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_header,
)
from .protocol.wire import FieldError, Record, fields_of, from_fields

__all__ = ["UNREADABLE", "Response", "form_to_read", "read_answer"]


class Response(msgspec.Struct, gc=False):
    """The answer to a request of ours. A JSON header is decoded into one; its ext fields when
    somebody asks for them.

    (``gc=False``: there is one per request, and nothing in it can lead back to it.)
    """

    code: int
    raw_fields: msgspec.Raw = msgspec.field(name="extFields", default=msgspec.Raw(b"null"))
    """The ext fields as JSON."""
    flag: int = 0
    opaque: int = 0
    remark: str | None = None
    version: int = 0
    body: bytes = msgspec.field(name="(body)", default=b"")
    """Not of the header."""
    request_code: int = msgspec.field(name="(request code)", default=0)
    """What was asked. Not of the header."""

    @classmethod
    def of(cls, command: RemotingCommand, body: bytes = b"", request_code: int = 0) -> Response:
        """From a header of any form."""
        fields = msgspec.Raw(_encode(command.ext_fields))
        return cls(
            command.code,
            fields,
            command.flag,
            command.opaque,
            command.remark,
            command.version,
            body,
            request_code,
        )

    @property
    def ext_fields(self) -> dict[str, str]:
        """As text. Raises ``ProtocolError`` when they are no JSON object."""
        try:
            return _decode_fields(self.raw_fields) or {}
        except UNREADABLE:
            pass  # the general way turns into text what is none
        try:
            return (
                decode_header(
                    SerializeType.JSON, b'{"code":0,"extFields":%b}' % bytes(self.raw_fields)
                ).ext_fields
                or {}
            )
        except HeaderError as error:
            raise ProtocolError(
                f"answer to {RequestCode(self.request_code).name}: {error}"
            ) from None

    @property
    def header(self) -> Any:
        """The typed response header of the command. Raises ``ProtocolError`` when a field is
        missing or malformed."""
        response_type = COMMANDS[RequestCode(self.request_code)].response
        decode = _decoder_of(response_type)
        if decode is not None:
            try:
                return decode(self.raw_fields)
            except UNREADABLE:
                pass  # the general way knows more forms, and what is wrong
        try:
            return from_fields(response_type, self.ext_fields)
        except FieldError as error:
            raise ProtocolError(
                f"answer to {RequestCode(self.request_code).name}: {error}"
            ) from None

    def error(self, address: str = "") -> BrokerError:
        """The error that stands for this response's code."""
        return broker_error(self.code, self.remark, address)

    def check(self, address: str = "") -> Response:
        """This response if its code is success. Raises the ``BrokerError`` of its code
        otherwise."""
        if self.code != 0:
            raise self.error(address)
        return self


UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding ext fields may raise."""
_encode: Final = msgspec.json.Encoder().encode
_decode_answer: Final = msgspec.json.Decoder(Response).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, str] | None).decode


@functools.cache
def _decoder_of(response_type: type[Record]) -> Callable[[msgspec.Raw], Any] | None:
    """The quick way to a typed header. ``None`` when it has booleans: msgspec takes other texts for
    true than we do."""
    if any(field.kind is bool for field in fields_of(response_type)):
        return None
    return msgspec.json.Decoder(response_type, strict=False).decode


_FEW_QUOTES: Final = 256
"""Those of 64 pairs; answers have less than ten."""


def form_to_read(serialize_type: int, header: bytes) -> int:
    """The form of an answer, without ``LONG_HEADER`` where that may be read as it is: what is dear
    are many pairs, and a JSON header is also long because of one text. The answer to a batch has
    the ids of all its messages, 270 KB for 256 KB of the shortest ones."""
    if serialize_type == LONG_HEADER | SerializeType.JSON and header.count(b'"') <= _FEW_QUOTES:
        return int(SerializeType.JSON)
    return serialize_type


def read_answer(serialize_type: int, header: bytes) -> Response | None:
    """A header as an answer, still without its body. ``None``: it is a request, or cannot be read
    the short way. Raises ``HeaderError``."""
    if serialize_type & LONG_HEADER:
        return None
    if serialize_type != 0:  # SerializeType.JSON
        command = decode_header(serialize_type, header)
        return Response.of(command) if command.is_response else None
    try:
        answer = _decode_answer(header)
    except UNREADABLE:
        return None
    return answer if answer.flag & RESPONSE_FLAG else None
