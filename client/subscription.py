"""What a consumer wants of a topic (client.md §7.1; classes FilterAPI, MessageSelector). Pure.

Tags are written ``TagA || TagB``, ``*`` is everything. Brokers compare only hash codes of tags, so what they send is
compared again here by text.
"""

from __future__ import annotations

from ..remoting.protocol.bodies.heartbeat import SubscriptionData
from ..remoting.protocol.message import MessageExt, find_property, tags_code
from .errors import ConfigError
from .options import checked_topic

EVERYTHING = "*"
TAG = "TAG"


def tag_subscription(topic: str, expression: str | None, now_ms: int) -> SubscriptionData:
    """The subscription of a topic by tags. Raises ``ConfigError`` for a bad topic and for an expression without a tag."""
    checked_topic(topic)
    if expression is None or expression.strip() in ("", EVERYTHING):
        return SubscriptionData(topic=topic, sub_string=EVERYTHING, sub_version=now_ms, expression_type=TAG)
    tags = tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))
    if not tags:
        raise ConfigError(f"the expression {expression!r} names no tag; write 'TagA || TagB' or '*'")
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=tuple(dict.fromkeys(map(tags_code, tags))),
        sub_version=now_ms,
        expression_type=TAG,
    )


class TagFilter:
    """Keeps the messages whose tag is one of the subscription's, by text."""

    __slots__ = ("_wanted",)

    def __init__(self, subscription: SubscriptionData) -> None:
        self._wanted = frozenset(tag.encode() for tag in subscription.tags_set)

    def keep(self, messages: list[MessageExt]) -> list[MessageExt]:
        """The same list when nothing is to be dropped. A message without a tag matches no tag."""
        wanted = self._wanted
        if not wanted:
            return messages
        return [m for m in messages if find_property(m.raw_properties, b"TAGS") in wanted]
