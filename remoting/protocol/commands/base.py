"""What a row of the table is, and the fields that many requests share."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..wire import Record, i64


class Command(NamedTuple):
    """One row of ``COMMANDS``: the classes of what goes there and of what comes back.

    A body is ``None`` (there is none), ``bytes`` (taken as it is: message bodies, records,
    ``.properties`` text) or a type for ``decode_body`` and ``encode_body`` (JSON).

    ``response`` describes the reply to a request that went well. A refused request may come back
    without any ext field, so a client decodes the header only after it has looked at the code.
    ``NoFields``: the original has no header class here. ``EmptyFields``: it has one that is never
    filled, so the reply says ``"extFields":{}``.
    """

    request: type[Record]
    response: type[Record]
    request_body: Any | None = None
    response_body: Any | None = None


class RpcRequest(Record, frozen=True, kw_only=True):
    """A request whose sender may name the broker it means (class RpcRequestHeader).

    Brokers ignore ``bname``, proxies route by it. It is an ext field like any other, so an ACL
    signature covers it.
    """

    bname: str | None = None


class TopicRequest(Record, frozen=True, kw_only=True):
    """A request about one topic."""

    topic: str


class ConsumerGroupRequest(Record, frozen=True, kw_only=True):
    """A request about one consumer group."""

    consumer_group: str


class OffsetResponse(Record, frozen=True, kw_only=True):
    """A queue offset: it counts entries, not bytes."""

    offset: i64
