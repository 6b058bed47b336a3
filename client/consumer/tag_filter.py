"""Tags are compared again by the consumer (class PullAPIWrapper; client.md §7.1). Pure.

Brokers compare only hash codes of tags, so what they send is compared here by text.
"""

from __future__ import annotations

from ...remoting.protocol.bodies.heartbeat import SubscriptionData
from ...remoting.protocol.message.properties import find_property
from ...remoting.protocol.record.decode import MessageExt


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
