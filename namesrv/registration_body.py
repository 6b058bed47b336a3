"""The body of a registration, in any of its forms (``headers.md`` §D.1, ``namesrv.md`` §5.3 step 0). Pure.

A broker registers every 30 s with all its topics, and almost always they are those that the name server knows. So the topics
are read only when somebody asks for them; finding the DataVersion takes a fraction of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ..remoting.protocol.bodies.codec import decode_request_body
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
from ..remoting.protocol.commands.route import RegisterBrokerRequest
from ..remoting.protocol.frame import MAX_FRAME_BYTES
from ..remoting.protocol.wire import Record
from ..remoting.slices import Steps


class RegistrationBody(NamedTuple):
    """What a broker says that it has."""

    data_version: DataVersion
    filter_servers: list[str] | None
    """``None`` from brokers that know of none: nothing changes."""
    topics: Callable[[], Mapping[str, TopicConfig]]
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
    """Check and read the body of request 103 from a peer of that version. What is packed is read in slices, and must not
    have more than ``max_bytes``. Raises ``CrcError``, ``BodyError``."""
    if request.body_crc32 and body_crc32(body) != request.body_crc32:
        raise CrcError("crc32 not match")
    if not body:
        return RegistrationBody(DataVersion(), [], dict)
    if version < V3_0_11:
        _count_topics(body, max_topics)
        table = decode_request_body(TopicConfigTable, body, max_bytes=MAX_FRAME_BYTES)
        return RegistrationBody(table.data_version, None, lambda: table.topic_config_table)
    if request.compressed:
        return _all_of((yield from unpack_registration(body, max_bytes=max_bytes, max_topics=max_topics)))
    _count_topics(body, max_topics)
    try:
        head = _decode_head(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # one of fastjson's liberties, perhaps
        return _all_of(_read_all(body))
    return RegistrationBody(
        head.topic_config_serialize_wrapper.data_version,
        head.filter_server_list,
        lambda: (
            decode_request_body(RegisterBrokerBody, body, max_bytes=MAX_FRAME_BYTES).topic_config_table.topic_config_table
        ),
    )


def _count_topics(body: bytes | memoryview, max_topics: int) -> None:
    """Before they are read. Who writes the key in another way is limited by the frame alone."""
    check_topic_count(bytes(body).count(b'"topicName"'), max_topics)


def _read_all(body: bytes | memoryview) -> RegisterBrokerBody:
    return decode_request_body(RegisterBrokerBody, body, max_bytes=MAX_FRAME_BYTES)


def _all_of(body: RegisterBrokerBody) -> RegistrationBody:
    table = body.topic_config_table
    return RegistrationBody(table.data_version, body.filter_server_list, lambda: table.topic_config_table)


class _HeadOfTable(Record, frozen=True, kw_only=True):
    data_version: DataVersion


class _Head(Record, frozen=True, kw_only=True):
    """A RegisterBrokerBody without its topics. No defaults: whatever is unusual goes the general way."""

    topic_config_serialize_wrapper: _HeadOfTable
    filter_server_list: list[str]


_decode_head = msgspec.json.Decoder(_Head).decode
