"""What the members of a group subscribe, which the original does not remember of each.

Pure. A heartbeat is taken in one step of the event loop, whatever it subscribes and however many
members the group has: nothing here looks at each subscription of each member.
"""

from __future__ import annotations

from typing import Final

from ...remoting.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from ...remoting.protocol.message.topic_names import is_retry_topic

Entry = tuple[str, str, frozenset[str]]
"""A topic, the kind of its expression, and the expression: tags in any order."""
WantedSet = frozenset[Entry]


def wanted_of(data: ConsumerData) -> WantedSet:
    """What a member subscribes. Not every client asks for its retry topic."""
    return frozenset(
        entry(each) for each in data.subscription_data_set if not is_retry_topic(each.topic)
    )


def entry(data: SubscriptionData) -> Entry:
    """One of them."""
    wanted = frozenset(data.tags_set or (data.sub_string or "",))
    return data.topic, data.expression_type, wanted


class WantedSets:
    """The different sets that the members of a group subscribe. Those that subscribe the same
    things have one and the same object."""

    def __init__(self) -> None:
        self._members: Final[dict[WantedSet, tuple[WantedSet, int]]] = {}
        """By set: the object, and how many have it."""
        self._sets: Final[dict[Entry, int]] = {}
        """In how many sets an entry is."""

    def anybody(self, wanted: Entry) -> bool:
        """Somebody asks for that, or for what nobody knows: a member without subscriptions."""
        return wanted in self._sets or frozenset() in self._members

    def add(self, wanted: WantedSet) -> WantedSet:
        """For one more member; the object that it shares."""
        same, members = self._members.get(wanted, (wanted, 0))
        self._members[same] = same, members + 1
        if not members:
            for each in same:
                self._sets[each] = self._sets.get(each, 0) + 1
        return same

    def remove(self, wanted: WantedSet) -> None:
        """For one less."""
        _, members = self._members.pop(wanted)
        if members > 1:
            self._members[wanted] = wanted, members - 1
            return
        for each in wanted:
            if sets := self._sets.pop(each) - 1:
                self._sets[each] = sets
