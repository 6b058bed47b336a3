"""What a client tells a broker about itself (``headers.md`` §B.1, §B.4).

Classes of the original: HeartbeatData, ProducerData, ConsumerData, SubscriptionData,
CheckClientRequestBody. Enum members stand in the original's order: its parser takes ordinals too.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from ..wire import Record, i32, i64


class ConsumeType(StrEnum):
    """Who starts: the application (pull) or the client library (push)."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(StrEnum):
    """Every consumer gets every message, or the consumers of a group share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group begins that has no offset yet."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Record, frozen=True, kw_only=True):
    """What a group wants of one topic."""

    topic: str
    sub_string: str | None = None
    """The expression as written: ``*``, ``TagA || TagB`` or SQL."""
    tags_set: tuple[str, ...] = ()
    code_set: tuple[i32, ...] = ()
    """``tags_code`` of each tag; different tags may have the same."""
    sub_version: i64 = 0
    """When the subscription was made, ms. 0 when the client left it out: the broker then takes its
    own clock."""
    expression_type: str = "TAG"
    class_filter_mode: bool = False


class ConsumerData(Record, frozen=True, kw_only=True):
    """One consumer of a client."""

    group_name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class ProducerData(Record, frozen=True, kw_only=True):
    """One producer of a client."""

    group_name: str


class HeartbeatData(Record, frozen=True, kw_only=True):
    """Everything that runs in a client."""

    client_id: str = field(name="clientID")
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()


class CheckClientRequestBody(Record, frozen=True, kw_only=True):
    """Would the broker take this subscription? (code 46)"""

    client_id: str
    group: str
    subscription_data: SubscriptionData
