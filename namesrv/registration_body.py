"""The body of a registration, in any of its forms (``headers.md`` §D.1, ``namesrv.md`` §5.3 step
0). Pure.

A broker registers every 30 s with all its topics, and almost always they are those that the name
server knows. So the topics are read only when somebody asks for them, and in pieces; finding the
DataVersion takes a fraction of that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from ..remoting.protocol.bodies.codec import MAX_LONG_WAY_BYTES, BodyError, decode_request_body
from ..remoting.protocol.bodies.registration import (
    MAX_TOPICS,
    MAX_UNPACKED_BYTES,
    RegisterBrokerBody,
    body_crc32,
    check_topic_count,
    unpack_registration,
)
from ..remoting.protocol.bodies.topic_config import DataVersion, TopicConfig, TopicConfigTable
from ..remoting.protocol.codes import V3_0_11
from ..remoting.protocol.commands.route import MAX_NAME, RegisterBrokerRequest
from ..remoting.protocol.wire import Record
from ..remoting.slices import Steps, in_one

PIECE_BYTES = 256 << 10
"""So much JSON is read in one slice: 8,000 topics at most, 4 ms."""
MOST_BYTES_OF_A_TOPIC = 256 << 10
"""A topic's part of the JSON: a name takes 3 KiB at most, the rest of it is numbers and, from 5.x,
attributes."""

_Topics = Mapping[str, TopicConfig]


class RegistrationBody(NamedTuple):
    """What a broker says that it has."""

    data_version: DataVersion
    filter_servers: list[str] | None
    """``None`` from brokers that know of none: nothing changes."""
    topics: Callable[[], Steps[_Topics]]
    """Raises ``BodyError``, while the body of the request is there."""


class CrcError(ValueError):
    """The body is not the one that the broker sent."""


def read_registration(
    request: RegisterBrokerRequest,
    version: int,
    body: bytes | memoryview,
    *,
    max_bytes: int = MAX_UNPACKED_BYTES,
    max_topics: int = MAX_TOPICS,
) -> Steps[RegistrationBody]:
    """Check and read the body of request 103 from a peer of that version. What is packed is read in
    slices, and must not have more than ``max_bytes``. Raises ``CrcError``, ``BodyError``."""
    if request.body_crc32 and body_crc32(body) != request.body_crc32:
        raise CrcError("crc32 not match")
    is_old = version < V3_0_11
    if not body:
        return _known(RegisterBrokerBody(), is_old=False)
    if request.compressed and not is_old:
        return _known(
            (yield from unpack_registration(body, max_bytes=max_bytes, max_topics=max_topics)),
            is_old=False,
        )
    check_topic_count(
        bytes(body).count(b'"topicName"'), max_topics
    )  # who writes it in another way: the frame is a limit
    try:
        head = (
            _Head(topic_config_serialize_wrapper=_decode_table(body))
            if is_old
            else _decode_head(body)
        )
    except UNREADABLE as error:
        return _known(_long_way(body, error, is_old=is_old), is_old=is_old)
    table = head.topic_config_serialize_wrapper
    filter_servers = None if is_old else head.filter_server_list
    return RegistrationBody(
        table.data_version,
        filter_servers,
        lambda: _topics_of(table.topic_config_table, body, is_old=is_old),
    )


def _known(body: RegisterBrokerBody, *, is_old: bool) -> RegistrationBody:
    """What was read already."""
    table = body.topic_config_table
    filter_servers = None if is_old else body.filter_server_list
    return RegistrationBody(
        table.data_version, filter_servers, lambda: in_one(table.topic_config_table)
    )


def _long_way(body: bytes | memoryview, error: Exception, *, is_old: bool) -> RegisterBrokerBody:
    """The body may take fastjson's liberties. Raises ``BodyError``, for a long one at once."""
    if len(body) > MAX_LONG_WAY_BYTES:
        raise BodyError(
            f"a registration of {len(body)} bytes must be standard JSON and have the right "
            f"fields: {error}"
        )
    if is_old:
        return RegisterBrokerBody(topic_config_table=decode_request_body(TopicConfigTable, body))
    return decode_request_body(RegisterBrokerBody, body)


def _topics_of(text: msgspec.Raw, body: bytes | memoryview, *, is_old: bool) -> Steps[_Topics]:
    """``text`` is the table in the body, and JSON, whatever else."""
    topics: dict[str, TopicConfig] = {}
    rest, begin = memoryview(text), 0
    try:
        while True:
            some, begin = _piece(rest, begin)
            topics.update(some)
            if begin == len(rest):
                return topics
            yield
    except UNREADABLE as error:
        return _long_way(body, error, is_old=is_old).topic_config_table.topic_config_table


def _piece(text: memoryview, begin: int) -> tuple[dict[str, TopicConfig], int]:
    """``PIECE_BYTES`` of the members of a JSON object, or a topic more, and where the others begin.
    Raises what is in ``UNREADABLE``, and ``BodyError`` where a topic is too long."""
    look_at = begin + PIECE_BYTES
    last = look_at + MOST_BYTES_OF_A_TOPIC
    opening, tries = b"{" if begin else b"", 0
    while (border := _BORDER.search(text, look_at, last)) is not None:
        tries += 1
        try:
            return _decode_topics(
                b"".join((opening, text[begin : border.start() + 1], b"}"))
            ), border.start(1)
        except UNREADABLE:
            if tries == _BORDERS_TRIED:
                raise
            look_at = border.end() - 1
    if len(text) > last:
        raise BodyError(
            f"in a registration of {len(text)} bytes a topic takes more than "
            f"{MOST_BYTES_OF_A_TOPIC} bytes"
        )
    return _decode_topics(b"".join((opening, text[begin:]))), len(text)


_BORDER: Final = re.compile(
    rb'\}\s*+,\s*+("(?:[^"\\]|\\.){0,%d}+"\s*+:\s*+\{)' % (6 * MAX_NAME), re.DOTALL
)
"""Between two members of the table: none has a longer name. It may also be found in a text, or
between two objects that a topic has: then what is in front of it is no JSON object."""
_BORDERS_TRIED: Final = 4


class _Table(Record, frozen=True, kw_only=True):
    """A TopicConfigTable without its topics."""

    data_version: DataVersion = DataVersion()
    topic_config_table: msgspec.Raw = msgspec.Raw(b"{}")


class _Head(Record, frozen=True, kw_only=True):
    """A RegisterBrokerBody without its topics. Whatever is unusual goes the general way."""

    topic_config_serialize_wrapper: _Table = _Table()
    filter_server_list: list[str] = msgspec.field(default_factory=list)


UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_table = msgspec.json.Decoder(_Table).decode
_decode_topics = msgspec.json.Decoder(dict[str, TopicConfig]).decode
