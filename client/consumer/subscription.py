"""What a consumer wants of a topic (client.md §7.1; classes FilterAPI, MessageSelector). Pure.

Tags are written ``TagA || TagB``, ``*`` is everything; ``tag_filter.py`` compares them. SQL92
expressions are evaluated by brokers alone, those with ``enablePropertyFilter=true``.
"""

from __future__ import annotations

import contextlib
import logging
import re
from typing import Final

import msgspec

from ...remoting.protocol.bodies.heartbeat import SubscriptionData
from ...remoting.protocol.message.properties import tags_code
from ..errors import ConfigError
from ..usage_errors import checked_topic

log: Final = logging.getLogger(__name__)

EVERYTHING = "*"
TAG = "TAG"
SQL92 = "SQL92"


_OPERATOR: Final = re.compile(r"\s([<>=]|<=|>=|<>|IS|IN|BETWEEN|CONTAINS)\s", re.IGNORECASE)


class Sql(msgspec.Struct, frozen=True):
    """An SQL92 expression over the properties of messages, to subscribe with::

        consumer.subscribe("Order", Sql("amount BETWEEN 0 AND 3 AND region IN ('north', 'south')"))

    Only messages for which it is true are sent by the broker. What may stand in it:
    ``docs/client.md``.
    """

    expression: str


def subscription_of(topic: str, expression: str | Sql | None, now_ms: int) -> SubscriptionData:
    """The subscription of a topic, by tags or by SQL92. Raises ``ConfigError`` for a bad topic,
    nothing to filter by, and SQL that is none.

    Whether a broker filters by SQL at all it says when the consumer starts.
    """
    if not isinstance(expression, Sql):
        return tag_subscription(topic, expression, now_ms)
    checked_topic(topic)
    if not expression.expression.strip():
        raise ConfigError("the SQL expression is empty; leave it out to get all messages")
    _check_sql(expression.expression)
    return SubscriptionData(
        topic=topic, sub_string=expression.expression, sub_version=now_ms, expression_type=SQL92
    )


def _check_sql(text: str) -> None:
    # here, because most consumers filter by tags
    from ...remoting.protocol.sql92.lexer import FilterError
    from ...remoting.protocol.sql92.parser import parse

    try:
        parse(text)
    except FilterError as error:
        raise ConfigError(f"the SQL expression {text[:1000]!r} is none: {error}") from None


def _is_sql(text: str) -> bool:
    """Not only blanks, as a tag may have them: ``price > 5``, ``name is null``."""
    if _OPERATOR.search(text) is None:
        return False
    with contextlib.suppress(ConfigError):
        _check_sql(text)
        return True
    return False


def same_expression(one: SubscriptionData, other: SubscriptionData) -> bool:
    """Both get the same messages of their topic."""
    return (one.sub_string, one.expression_type) == (other.sub_string, other.expression_type)


def tag_subscription(topic: str, expression: str | None, now_ms: int) -> SubscriptionData:
    """The subscription of a topic by tags. Raises ``ConfigError`` for a bad topic and for an
    expression without a tag, or with a single ``|``, which hardly anybody means."""
    checked_topic(topic)
    if expression is not None and not isinstance(expression, str):
        raise ConfigError(
            f"an expression is a text such as 'TagA || TagB', or Sql(...), not {expression!r}"
        )
    if expression is None or expression.strip() in ("", EVERYTHING):
        return SubscriptionData(
            topic=topic, sub_string=EVERYTHING, sub_version=now_ms, expression_type=TAG
        )
    tags = tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))
    if not tags:
        raise ConfigError(
            f"the expression {expression!r} names no tag; write 'TagA || TagB' or '*'"
        )
    if (lone := next((tag for tag in tags if "|" in tag), None)) is not None:
        raise ConfigError(
            f"the expression {expression!r} asks for one tag {lone!r}: tags are separated by ||. "
            "For a tag that has a | in it subscribe to all, and compare in the handler"
        )
    if _is_sql(expression):
        raise ConfigError(
            f"the expression {expression!r} asks for one tag of that name; as SQL it is "
            f"Sql({expression!r})"
        )
    if (listed := next((tag for tag in tags if "," in tag), None)) is not None:
        log.warning(
            "one tag with a comma is subscribed; several are joined by || topic=%s tag=%r",
            topic,
            listed,
        )
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=tuple(dict.fromkeys(map(tags_code, tags))),
        sub_version=now_ms,
        expression_type=TAG,
    )
