"""Who is connected: producers and consumers by group, as their heartbeats tell (classes
ProducerManager, ConsumerManager, ConsumerGroupInfo; ``broker-services.md`` §8).

Pure state: time is an argument, a connection is only a key, and what has to be done about a change
comes back as a value (``client_watch`` does it). A client is known by its connection; two
connections may claim one client id.

One file, though over 400 lines: what groups of producers and of consumers have in common, and what
they have not, is read together.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from ...remoting.protocol.codes import LanguageCode, ResponseCode
from ...remoting.slices import Steps, slices
from . import wanted_sets
from .wanted_sets import Entry, WantedSet, WantedSets

if TYPE_CHECKING:
    from ...remoting.peer import Peer

log: Final = logging.getLogger(__name__)

CLIENT_EXPIRED_MS: Final = 120_000
"""A client whose last heartbeat is longer ago than this is gone."""
TAG: Final = "TAG"
SUBSCRIBE_ALL: Final = "*"
MEMBER_BYTES: Final = 600
_OF_JSON: Final = 4
"""About the memory that a member of a group takes: so much, and four times what its subscriptions
take as JSON."""
_LOOKED_AT_AT_ONCE: Final = 5000
_GONE_AT_ONCE: Final = 100
"""Members in one slice of a scan: some milliseconds. Of who is gone there is a line."""
_TOLD: Final = 10
"""So many topics are named in a line of the log."""


class MembersFullError(RequestError):
    """Clients say that they are members of more groups, or subscribe more, than there is memory
    for."""

    def __init__(self, held: int, name: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"the members of all groups at this broker take {held} bytes, no more are taken into "
            f"{name}: start another broker, or use fewer groups and clients",
        )


class ClientChannel(msgspec.Struct, eq=False):
    """A client on its connection, as a member of one group."""

    connection: Peer
    client_id: str
    language: LanguageCode | None
    version: int
    last_update_ms: int
    """When its last heartbeat came, by the clock on the wall."""
    heard_ms: int
    """The same by one that never jumps."""
    wanted: WantedSet = frozenset()
    """Topics, kinds of expression and expressions, where the members of its group share the
    messages."""
    size_bytes: int = MEMBER_BYTES
    """About the memory that it takes."""

    def __repr__(self) -> str:
        return f"ClientChannel({self.client_id} at {self.connection.peer})"


class Subscription:
    """What a group wants of a topic, prepared for filtering on every pull.

    ``codes`` are the hashes of the wanted tags; they do not count when ``matches_all``.
    """

    __slots__ = (
        "codes",
        "data",
        "expression_type",
        "is_tag",
        "matches_all",
        "sub_version",
        "topic",
    )

    def __init__(self, data: SubscriptionData) -> None:
        self.data: SubscriptionData = data
        self.topic: str = data.topic
        self.sub_version: int = data.sub_version
        self.expression_type: str = data.expression_type or TAG
        self.is_tag: bool = self.expression_type == TAG
        self.matches_all: bool = data.class_filter_mode or (
            self.is_tag and data.sub_string == SUBSCRIBE_ALL
        )
        self.codes: frozenset[int] = frozenset(data.code_set)


class ProducerGroup(msgspec.Struct, eq=False):
    name: str
    channels: dict[Peer, ClientChannel] = {}


class ConsumerGroup(msgspec.Struct, eq=False):
    """A group with at least one member. Type, model and start follow the newest heartbeat of any
    member."""

    name: str
    channels: dict[Peer, ClientChannel] = {}
    subscriptions: dict[str, Subscription] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    broadcast: bool = False
    wants: WantedSets = msgspec.field(default_factory=WantedSets)
    """Of all members."""

    def describe(self, data: ConsumerData) -> None:
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        self.broadcast = data.message_model is MessageModel.BROADCASTING

    def subscribe(self, wanted: Iterable[SubscriptionData], now_ms: int) -> bool:
        """Take over the subscriptions of a heartbeat. Whether a topic came or went; a newer version
        is no change.

        A client that leaves the version out gets the broker's clock. What no member asks for any
        more gives way whatever the version, which is its client's clock: that may have been ahead,
        and members that are started anew one after the other would never get what they want.
        """
        come: list[str] = []
        named = set()
        for data in wanted:
            named.add(data.topic)
            if data.sub_version == 0:
                data = replace(data, sub_version=now_ms)
            old = self.subscriptions.get(data.topic)
            if old is None:
                come.append(
                    data.topic
                    if data.sub_string is None
                    else f"{data.topic} {data.sub_string:.100}"
                )
            if (
                old is None
                or data.sub_version > old.sub_version
                or self._is_abandoned(old.data, data)
            ):
                self.subscriptions[data.topic] = Subscription(data)
        if come:
            log.info(
                "group subscribes group=%s topics=%d %s",
                self.name,
                len(come),
                ", ".join(come[:_TOLD]),
            )
        if gone := list(self.subscriptions.keys() - named):
            log.info(
                "group unsubscribes group=%s topics=%d %s",
                self.name,
                len(gone),
                ", ".join(gone[:_TOLD]),
            )
            for topic in gone:
                del self.subscriptions[topic]
        return bool(come or gone)

    def _is_abandoned(self, old: SubscriptionData, new: SubscriptionData) -> bool:
        """Something else is asked for, and nobody who shares the messages asks for that."""
        asked = wanted_sets.entry(old)
        return wanted_sets.entry(new) != asked and not self.wants.anybody(asked)

    def find(self, client_id: str) -> ClientChannel | None:
        """The member of that id, where it was heard last."""
        found = (each for each in self.channels.values() if each.client_id == client_id)
        return max(found, key=lambda each: each.heard_ms, default=None)


class Expired(NamedTuple):
    """What a scan found: connections to close, and consumer groups that lost a member and still
    have others."""

    connections: list[Peer]
    changed_groups: list[str]


G = TypeVar("G", ProducerGroup, ConsumerGroup)


class _Groups(Generic[G]):
    """Groups by name, and from each connection back to its groups. A group without members does not
    exist."""

    def __init__(self, new_group: Callable[[str], G], most_bytes: int) -> None:
        self._new_group: Callable[[str], G] = new_group
        self._most_bytes = most_bytes
        self.size_bytes: int = 0
        """Of all members."""
        self._groups: dict[str, G] = {}
        self._groups_of: dict[Peer, set[str]] = {}
        self.on_gone: list[Callable[[str], None]] = []
        """Called with the name of a group that has lost its last member."""
        self.get: Callable[[str], G | None] = self._groups.get
        """``get(name)``: the group when it has members, else None."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[G]:
        return iter(self._groups.values())

    def groups_of(self, connection: Peer) -> frozenset[str]:
        """The groups this connection is a member of."""
        return frozenset(self._groups_of.get(connection, ()))

    def group_count(self, connection: Peer) -> int:
        """Of how many groups this connection is a member."""
        return len(self._groups_of.get(connection, ()))

    def connections(self, name: str) -> list[Peer]:
        """All members of a group."""
        group = self._groups.get(name)
        return list(group.channels) if group else []

    def _join(self, name: str, channel: ClientChannel) -> tuple[G, bool]:
        """The group with the channel in it, and whether it was not in it before. Raises
        ``MembersFullError`` where that takes more memory than before, and there is none."""
        group = self._groups.get(name)
        old = None if group is None else group.channels.get(channel.connection)
        more = channel.size_bytes - (0 if old is None else old.size_bytes)
        if more > 0 and self.size_bytes + more > self._most_bytes:
            raise MembersFullError(self.size_bytes, name)
        self.size_bytes += more
        if group is None:
            group = self._groups[name] = self._new_group(name)
        if old is not None and old.client_id != channel.client_id:
            channel.connection.tell_of(
                log,
                ("client id",),
                "client id changed on its connection group=%s %r -> %r",
                name,
                old,
                channel,
            )
        group.channels[channel.connection] = channel
        self._groups_of.setdefault(channel.connection, set()).add(name)
        return group, old is None

    def unregister(self, name: str, connection: Peer) -> bool:
        """Take a member out of a group. Whether it was one and others remain, who have to know."""
        group = self._groups.get(name)
        channel = None if group is None else group.channels.pop(connection, None)
        if group is None or channel is None:
            return False
        self.size_bytes -= channel.size_bytes
        names = self._groups_of[connection]
        names.discard(name)
        if not names:
            del self._groups_of[connection]
        if not group.channels:
            del self._groups[name]
            for listener in self.on_gone:
                listener(name)
        return bool(group.channels)

    def remove_connection(self, connection: Peer) -> list[str]:
        """The connection has ended. The groups that lost a member and still have others."""
        names = sorted(self._groups_of.get(connection, ()))
        return [name for name in names if self.unregister(name, connection)]

    def expire(self, now_ms: int) -> Steps[Expired]:
        """Take out members that have been silent for more than ``CLIENT_EXPIRED_MS``."""
        connections: dict[Peer, None] = {}
        changed: set[str] = set()
        members = (
            (g.name, c) for g in list(self._groups.values()) for c in list(g.channels.values())
        )
        for some in slices(members, _LOOKED_AT_AT_ONCE):
            silent = [each for each in some if now_ms - each[1].heard_ms > CLIENT_EXPIRED_MS]
            for few in slices(silent, _GONE_AT_ONCE):
                for name, channel in few:
                    if self._is_member(name, channel):
                        log.warning(
                            "client expired: no heartbeat for %d s group=%s %r",
                            CLIENT_EXPIRED_MS // 1000,
                            name,
                            channel,
                        )
                        connections[channel.connection] = None
                        if self.unregister(name, channel.connection):
                            changed.add(name)
                yield
            yield
        return Expired(list(connections), sorted(changed & self._groups.keys()))

    def _is_member(self, name: str, channel: ClientChannel) -> bool:
        """It has sent no other heartbeat meanwhile, and has not left."""
        group = self._groups.get(name)
        return group is not None and group.channels.get(channel.connection) is channel


class Producers(_Groups[ProducerGroup]):
    """Producer groups, and each client id with its newest connection (for replies)."""

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        super().__init__(ProducerGroup, most_bytes)
        self._connections_of: dict[str, dict[Peer, None]] = {}
        """By client id, the one with the youngest heartbeat last."""
        self._ids: dict[Peer, str] = {}

    def register(self, name: str, channel: ClientChannel) -> bool:
        """A heartbeat of a producer. Whether it is new. Raises ``MembersFullError``."""
        _, is_new = self._join(name, channel)
        connection, client_id = channel.connection, channel.client_id
        self._forget_id(connection)
        self._ids[connection] = client_id
        self._connections_of.setdefault(client_id, {})[connection] = None
        return is_new

    def unregister(self, name: str, connection: Peer) -> bool:
        others_remain = super().unregister(name, connection)
        if connection not in self._groups_of:
            self._forget_id(connection)
        return others_remain

    def _forget_id(self, connection: Peer) -> None:
        client_id = self._ids.pop(connection, None)
        if client_id is not None:
            connections = self._connections_of[client_id]
            del connections[connection]
            if not connections:
                del self._connections_of[client_id]

    def connection_of(self, client_id: str) -> Peer | None:
        """Where a client is, whatever its group; the youngest heartbeat wins."""
        return next(reversed(self._connections_of.get(client_id, {})), None)


class Consumers(_Groups[ConsumerGroup]):
    """Consumer groups with their subscriptions."""

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        super().__init__(ConsumerGroup, most_bytes)

    def register(self, data: ConsumerData, channel: ClientChannel) -> bool:
        """A heartbeat of a consumer. Whether the members of the group have to know: a new member, a
        topic more or less. Raises ``MembersFullError``."""
        channel.size_bytes = MEMBER_BYTES + _OF_JSON * len(msgspec.json.encode(data))
        known = self._groups.get(data.group_name)
        before = None if known is None else known.channels.get(channel.connection)
        group, is_new = self._join(data.group_name, channel)
        group.describe(data)
        wanted = frozenset() if group.broadcast else wanted_sets.wanted_of(data)
        channel.wanted = group.wants.add(wanted)
        if before is not None:
            group.wants.remove(before.wanted)
        _tell_conflicts(group, channel, before)
        return group.subscribe(data.subscription_data_set, channel.last_update_ms) or is_new

    def unregister(self, name: str, connection: Peer) -> bool:
        group = self._groups.get(name)
        channel = None if group is None else group.channels.get(connection)
        if group is not None and channel is not None:
            group.wants.remove(channel.wanted)
        return super().unregister(name, connection)

    def subscription(self, name: str, topic: str) -> Subscription | None:
        """What the group wants of the topic."""
        group = self._groups.get(name)
        return group.subscriptions.get(topic) if group is not None else None

    def client_ids(self, name: str) -> list[str]:
        """The ids of the members, empty when there is no such group."""
        group = self._groups.get(name)
        return [c.client_id for c in group.channels.values()] if group else []

    def groups_subscribed(self, topic: str) -> list[str]:
        """Groups with members that want the topic."""
        return [group.name for group in self._groups.values() if topic in group.subscriptions]


def _tell_conflicts(
    group: ConsumerGroup, channel: ClientChannel, before: ClientChannel | None
) -> None:
    """Members that take messages from each other, which the original lets them without a word. Of
    two with one id each sends heartbeats; a connection that was lost sends no more. ``before``:
    this one's last heartbeat."""
    for other in group.channels.values():
        if other is channel:
            continue
        if (
            other.client_id == channel.client_id
            and before is not None
            and other.last_update_ms > before.last_update_ms
        ):
            channel.connection.tell_of(
                log,
                ("one id", group.name),
                "two members have one client id, both get every message: give each another "
                "instanceName group=%s %r and %r",
                group.name, channel, other,
            )  # fmt: skip
        if channel.wanted and other.wanted and channel.wanted is not other.wanted:
            channel.connection.tell_of(
                log,
                ("other subscriptions", group.name),
                "members subscribe to different topics or tags, messages are passed over: all of a "
                "group have to subscribe to the same group=%s %r and %r differ in %s",
                group.name, channel, other, _topics_of(channel.wanted ^ other.wanted),
            )  # fmt: skip
            return


def _topics_of(wanted: Iterable[Entry]) -> str:
    topics = sorted({topic for topic, _, _ in wanted})
    return ", ".join(topics[:_TOLD])
