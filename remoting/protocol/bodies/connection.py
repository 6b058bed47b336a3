"""Who is connected (classes ConsumerConnection, ProducerConnection, Connection, ProducerTableInfo,
ProducerInfo)."""

from __future__ import annotations

from msgspec import field

from ..codes import LanguageCode
from ..wire import Record, i32, i64
from .heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData


class ClientConnection(Record, frozen=True, kw_only=True):
    """One connected client (class Connection)."""

    client_id: str | None = None
    client_addr: str | None = None
    """``ip:port`` as the broker sees it."""
    language: LanguageCode | None = None
    version: i32 = 0


class ConsumerConnection(Record, frozen=True, kw_only=True):
    """The clients of a consumer group and what it subscribes (code 203)."""

    connection_set: tuple[ClientConnection, ...] = ()
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Record, frozen=True, kw_only=True):
    """The clients of a producer group (code 204)."""

    connection_set: tuple[ClientConnection, ...] = ()


class ProducerInfo(Record, frozen=True, kw_only=True):
    """One producer, in ``ProducerTable``."""

    client_id: str | None = None
    remote_ip: str | None = field(name="remoteIP", default=None)
    """Java's form of an address: ``/ip:port``."""
    language: LanguageCode | None = None
    version: i32 = 0
    last_update_timestamp: i64 = 0


class ProducerTable(Record, frozen=True, kw_only=True):
    """All producers of a broker by group (code 328, class ProducerTableInfo)."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
