"""Producers and consumers: who is in which group, and who has to be told of a change."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from aiorocketmq.broker.state import clients, wanted_sets
from aiorocketmq.broker.state.clients import (
    CLIENT_EXPIRED_MS,
    MEMBER_BYTES,
    ClientChannel,
    Consumers,
    Expired,
    MembersFullError,
    Producers,
    Subscription,
)
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumerData,
    MessageModel,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.codes import LanguageCode
from aiorocketmq.remoting.slices import Steps, at_once
from aiorocketmq.remoting.transport.connection import Connection


class Key:
    """The tables use a connection as a key, and to tell what its peer does wrong."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.told: list[str] = []

    def tell_of(self, _log: object, kind: tuple[str, ...], _text: str, *_args: object) -> None:
        self.told.append(kind[0])


def connection(name: str) -> Connection:
    return cast(Connection, Key(name))


def channel(at: Connection, now_ms: int = 0, client_id: str = "c") -> ClientChannel:
    return ClientChannel(at, client_id, LanguageCode.JAVA, 409, now_ms, now_ms)


def consumer(group: str, *topics: str, version: int = 1, **more: Any) -> ConsumerData:
    wanted = tuple(
        SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics
    )
    return ConsumerData(group_name=group, subscription_data_set=wanted, **more)


def test_a_new_member_is_a_change_and_its_second_heartbeat_is_none() -> None:
    consumers, a, b = Consumers(), connection("a"), connection("b")
    assert consumers.register(consumer("g", "T"), channel(a))
    assert not consumers.register(consumer("g", "T"), channel(a))
    assert consumers.register(consumer("g", "T"), channel(b))
    assert consumers.client_ids("g") == ["c", "c"]
    assert consumers.connections("g") == [a, b]


def test_topics_that_come_and_go_are_changes_and_newer_versions_are_not() -> None:
    consumers, a = Consumers(), connection("a")
    consumers.register(consumer("g", "T"), channel(a))
    assert not consumers.register(consumer("g", "T", version=5), channel(a))
    assert not consumers.register(consumer("g", "T", version=3), channel(a))
    kept = consumers.subscription("g", "T")
    assert kept is not None
    assert kept.sub_version == 5
    assert consumers.register(consumer("g", "T", "U"), channel(a))
    assert consumers.register(consumer("g", "U"), channel(a))
    assert consumers.subscription("g", "T") is None
    assert consumers.groups_subscribed("U") == ["g"]


def test_what_nobody_wants_any_more_gives_way_to_an_older_version() -> None:
    """The first members' clock was ahead; those that are started after them, one by one, say when
    it is by the right one."""
    consumers = Consumers()
    first, second, third = map(connection, "abc")

    def wanted() -> tuple[str | None, int]:
        found = consumers.subscription("g", "T")
        assert found is not None
        return found.data.sub_string, found.sub_version

    for old in (first, second):
        consumers.register(tagged("a", version=900), channel(old))
    consumers.unregister("g", first)
    consumers.register(tagged("b", version=500), channel(third))
    assert wanted() == ("a", 900), "somebody still wants that"
    consumers.unregister("g", second)
    assert wanted() == ("a", 900)
    consumers.register(tagged("b", version=500), channel(third))
    assert wanted() == ("b", 500)
    consumers.register(tagged("b", version=600), channel(first))
    consumers.register(tagged("b", version=500), channel(third))
    assert wanted() == ("b", 600), "the same in an older version changes nothing"


def test_a_subscription_without_version_gets_the_clock() -> None:
    consumers = Consumers()
    consumers.register(consumer("g", "T", version=0), channel(connection("a"), now_ms=77))
    found = consumers.subscription("g", "T")
    assert found is not None
    assert found.sub_version == 77


def test_the_group_is_what_the_newest_heartbeat_says() -> None:
    consumers, a = Consumers(), connection("a")
    consumers.register(consumer("g", message_model=MessageModel.BROADCASTING), channel(a))
    group = consumers.get("g")
    assert group is not None
    assert group.broadcast
    consumers.register(consumer("g", message_model=MessageModel.CLUSTERING), channel(a))
    assert not group.broadcast


def test_a_subscription_is_prepared_for_filtering() -> None:
    tags = Subscription(SubscriptionData(topic="T", sub_string="A || B", code_set=(65, 66)))
    assert (tags.matches_all, tags.codes, tags.is_tag) == (False, frozenset({65, 66}), True)
    assert Subscription(SubscriptionData(topic="T", sub_string="*")).matches_all
    assert not Subscription(
        SubscriptionData(topic="T", sub_string="*", expression_type="SQL92")
    ).matches_all
    without: Any = None  # as a client may send it
    assert Subscription(SubscriptionData(topic="T", expression_type=without)).is_tag


def told(at: Connection) -> list[str]:
    return cast(Key, at).told


def test_members_with_one_client_id_are_told_and_a_lost_connection_is_no_member() -> None:
    consumers, lost, a, b = Consumers(), connection("lost"), connection("a"), connection("b")
    for now_ms in (0, 30):
        consumers.register(consumer("g", "T"), channel(lost, now_ms))
    for now_ms in (40, 70, 100):
        consumers.register(consumer("g", "T"), channel(a, now_ms))
    assert told(lost) == told(a) == []
    consumers.register(consumer("g", "T"), channel(b, 101))
    consumers.register(consumer("other", "T"), channel(b, 101))
    assert told(a) == told(b) == []
    consumers.register(consumer("g", "T"), channel(a, 130))
    consumers.register(consumer("g", "T"), channel(b, 131))
    assert told(a) == told(b) == ["one id"]


def tagged(*tags: str, version: int = 1, **more: Any) -> ConsumerData:
    wanted = SubscriptionData(
        topic="T", sub_string=" || ".join(tags), tags_set=tags, sub_version=version
    )
    return ConsumerData(group_name="g", subscription_data_set=(wanted,), **more)


@pytest.mark.parametrize(
    ("mine", "yours", "conflict"),
    [
        (consumer("g", "T"), consumer("g", "T", version=2), False),
        (consumer("g", "T"), consumer("g", "T", "U"), True),
        (consumer("g", "T"), consumer("g"), False),
        (consumer("g", "T"), consumer("g", "T", "%RETRY%g"), False),
        (tagged("a", "b"), tagged("b", "a"), False),
        (tagged("a"), tagged("b"), True),
        (tagged("a"), consumer("g", "T"), True),
        (
            tagged("a", message_model=MessageModel.BROADCASTING),
            tagged("b", message_model=MessageModel.BROADCASTING),
            False,
        ),
    ],
    ids=[
        "same",
        "topics",
        "assigned by hand",
        "retries",
        "order of tags",
        "tags",
        "all",
        "broadcast",
    ],
)
def test_members_that_subscribe_to_different_things_are_told(
    mine: ConsumerData, yours: ConsumerData, conflict: bool
) -> None:
    """Each takes what the other wants, and passes it over."""
    consumers, a, b = Consumers(), connection("a"), connection("b")
    consumers.register(mine, channel(a, client_id="a"))
    consumers.register(yours, channel(b, client_id="b"))
    consumers.register(mine, channel(a, client_id="a"))
    assert told(a) == told(b) == ["other subscriptions"] * conflict


class _Counted(tuple[str, str, frozenset[str]]):
    """What is subscribed, counting how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        _Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        _Counted.looks += 1
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


@pytest.mark.parametrize("alike", [True, False])
def test_a_long_heartbeat_does_not_look_at_each_subscription_of_each_member(
    monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    """It is done in one step, while everybody waits."""
    consumers, mine, topics = Consumers(), connection("mine"), [f"t{n}" for n in range(50)]
    entry = wanted_sets.entry
    monkeypatch.setattr(wanted_sets, "entry", lambda data: _Counted(entry(data)))

    def all_topics(tag: str, version: int) -> ConsumerData:
        wanted = tuple(
            SubscriptionData(topic=topic, sub_string=tag, tags_set=(tag,), sub_version=version)
            for topic in topics
        )
        return ConsumerData(group_name="g", subscription_data_set=wanted)

    for number in range(400):
        data = all_topics("a", 9) if alike else consumer("g", f"of-{number}")
        consumers.register(data, channel(connection(str(number)), client_id=str(number)))
    for data in (all_topics("a", 9), all_topics("b", 1)):
        _Counted.looks = 0
        consumers.register(data, channel(mine, client_id="mine"))
        assert _Counted.looks < 20 * len(topics)
    found = consumers.subscription("g", "t0")
    assert found is not None
    assert found.data.sub_string == ("a" if alike else "b")  # the others, or nobody, want "a"


def test_a_member_is_found_by_its_id() -> None:
    consumers, producers, a, b = Consumers(), Producers(), connection("a"), connection("b")
    consumers.register(consumer("g"), channel(a, client_id="one"))
    group = consumers.get("g")
    assert group is not None
    assert group.find("one") is group.channels[a]
    assert group.find("two") is None
    producers.register("p", channel(a, 1, "one"))
    producers.register("q", channel(b, 2, "one"))
    assert producers.connection_of("one") is b
    assert producers.connection_of("two") is None


def test_who_gets_a_reply_is_found_without_looking_at_all_producers() -> None:
    producers, a, b = Producers(), connection("a"), connection("b")
    for number in range(100):
        producers.register(f"g{number}", channel(a, 10, "one"))
    producers.register("h", channel(b, 5, "one"))  # the clock was put back
    assert producers.connection_of("one") is b
    producers._groups.clear()  # nobody looks there
    assert producers.connection_of("one") is b


def test_a_client_is_where_its_last_heartbeat_came_from_and_is_not_gone() -> None:
    producers, a, b = Producers(), connection("a"), connection("b")
    for at in (a, b, a):
        producers.register("g", channel(at, 1, "one"))
    producers.register("h", channel(a, 1, "one"))
    assert producers.connection_of("one") is a
    producers.unregister("g", a)
    assert producers.connection_of("one") is a
    producers.register("h", channel(a, 1, "another"))
    assert (producers.connection_of("one"), producers.connection_of("another")) == (b, a)
    for at in (a, b):
        producers.remove_connection(at)
    assert producers.connection_of("one") is producers.connection_of("another") is None
    assert not producers._connections_of
    assert not producers._ids


def test_others_have_their_turn_while_many_members_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "_LOOKED_AT_AT_ONCE", 4)
    monkeypatch.setattr(clients, "_GONE_AT_ONCE", 2)
    producers, a, b, late = Producers(), connection("a"), connection("b"), CLIENT_EXPIRED_MS + 1
    for number in range(8):
        producers.register(f"g{number}", channel(a))
    producers.register("g7", channel(b))
    found: list[Expired] = []

    def scan() -> Steps[None]:
        found.append((yield from producers.expire(late)))

    for turn, _ in enumerate(scan(), 1):
        if turn == 1:
            producers.register("g6", channel(a, late))
            producers.unregister("g7", b)
    assert turn >= 4
    assert found == [([a], [])]
    assert [group.name for group in producers] == ["g6"]


def test_a_client_that_came_back_is_where_it_was_heard_last() -> None:
    """Its first connection was lost without a word, and the clock was put back."""
    consumers, producers, a, b = Consumers(), Producers(), connection("a"), connection("b")
    for at, time_ms, heard_ms in ((a, 9000, 0), (b, 1000, 10)):
        one = ClientChannel(at, "one", LanguageCode.JAVA, 409, time_ms, heard_ms)
        producers.register("g", one)
        consumers.register(consumer("g"), one)
    group = consumers.get("g")
    assert group is not None
    assert group.find("one") is group.channels[b]
    assert producers.connection_of("one") is b


def test_members_of_all_groups_have_a_limit_together() -> None:
    a, b, short = connection("a"), connection("b"), consumer("g", "T")
    consumers = Consumers()
    consumers.register(short, channel(a))
    consumers = Consumers(2 * (one := consumers.size_bytes))
    for at in (a, b):
        consumers.register(short, channel(at))
    consumers.register(short, channel(a, 1))
    for at, data in ((connection("c"), short), (b, consumer("g", "T" * 1000)), (b, consumer("h"))):
        with pytest.raises(MembersFullError):
            consumers.register(data, channel(at))
    assert consumers.size_bytes == 2 * one
    assert [group.name for group in consumers] == ["g"]
    consumers.unregister("g", a)
    consumers.register(consumer("h"), channel(b))
    consumers.remove_connection(b)
    assert consumers.size_bytes == 0
    producers = Producers(MEMBER_BYTES)
    producers.register("p", channel(a))
    with pytest.raises(MembersFullError):
        producers.register("q", channel(b, client_id="b"))
    assert producers.connection_of("b") is None


GROUPS = st.sampled_from(["g", "h", "i"])
PEERS = st.integers(0, 3)


class ClientMachine(RuleBasedStateMachine):
    """Heartbeats, farewells, lost connections and silence, against a set of (group, peer) with
    times."""

    @initialize()
    def begin(self) -> None:
        self.consumers, self.producers = Consumers(), Producers()
        self.peers = [connection(str(number)) for number in range(4)]
        self.now = 0
        self.members: dict[tuple[str, int], int] = {}

    def others(self, group: str) -> bool:
        return any(name == group for name, _ in self.members)

    @rule(ms=st.integers(0, CLIENT_EXPIRED_MS))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @rule(group=GROUPS, peer=PEERS, tags=st.sampled_from(["", "a", "b", "a b"]))
    def heartbeat(self, group: str, peer: int, tags: str) -> None:
        """Of the same topic, so that a new member is the only change."""
        is_new = (group, peer) not in self.members
        data = replace(tagged(*tags.split()), group_name=group)
        assert self.consumers.register(data, channel(self.peers[peer], self.now)) == is_new
        assert self.producers.register(group, channel(self.peers[peer], self.now)) == is_new
        self.members[group, peer] = self.now

    @rule(group=GROUPS, peer=PEERS)
    def farewell(self, group: str, peer: int) -> None:
        was_member = self.members.pop((group, peer), None) is not None
        self.producers.unregister(group, self.peers[peer])
        assert self.consumers.unregister(group, self.peers[peer]) == (
            was_member and self.others(group)
        )

    @rule(peer=PEERS)
    def lose(self, peer: int) -> None:
        left = sorted(group for group, number in self.members if number == peer)
        self.members = {key: at for key, at in self.members.items() if key[1] != peer}
        told = [group for group in left if self.others(group)]
        assert self.consumers.remove_connection(self.peers[peer]) == told
        assert self.producers.remove_connection(self.peers[peer]) == told

    @rule()
    def scan(self) -> None:
        silent = {key for key, at in self.members.items() if self.now - at > CLIENT_EXPIRED_MS}
        self.members = {key: at for key, at in self.members.items() if key not in silent}
        told = sorted({group for group, _ in silent if self.others(group)})
        for table in (self.consumers, self.producers):
            found = at_once(table.expire(self.now))
            assert set(found.connections) == {self.peers[peer] for _, peer in silent}
            assert found.changed_groups == told

    @invariant()
    def tables_are_the_model(self) -> None:
        for table in (self.consumers, self.producers):
            assert {group.name for group in table} == {group for group, _ in self.members}
            for number, peer in enumerate(self.peers):
                assert table.groups_of(peer) == {
                    group for group, other in self.members if other == number
                }

    @invariant()
    def what_members_want_is_counted(self) -> None:
        for group in self.consumers:
            wanted = [member.wanted for member in group.channels.values()]
            for tags in ((), ("a",), ("b",), ("a", "b")):
                entry = wanted_sets.entry(tagged(*tags).subscription_data_set[0])
                assert group.wants.anybody(entry) == any(
                    entry in each or not each for each in wanted
                )


TestClientMachine = ClientMachine.TestCase
