"""Topics that a master does not have any more: when a name server forgets them, and when it must
not. Each danger is a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from aiorocketmq.namesrv import route_table
from aiorocketmq.namesrv.route_table import (
    BROKER_EXPIRED_MS,
    BrokerGoneError,
    Registered,
    RouteTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from aiorocketmq.remoting.protocol.commands.route import BrokerRequest, RegisterBrokerRequest
from aiorocketmq.remoting.slices import Steps, at_once, in_one

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


def request(addr: str, broker_id: int, whole: bool | None, name: str) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        broker_name=name,
        broker_addr=addr,
        cluster_name="C",
        ha_server_addr="h",
        broker_id=broker_id,
        whole_table=whole,
    )


def configs_of(topics: str) -> dict[str, TopicConfig]:
    """A letter each."""
    return {name: TopicConfig(topic_name=name) for name in topics}


class World:
    """Brokers of one name, ``a``, and whoever else."""

    def __init__(self) -> None:
        self.table: Final = RouteTable()
        self.read = 0
        """How often topics were looked at."""

    def whole(self, topics: str, version: int, addr: str = A, **more: int) -> Registered:
        return self._register(topics, version, addr, True, **more)

    def some(self, topics: str, version: int, addr: str = A, **more: int) -> Registered:
        return self._register(topics, version, addr, None, **more)

    def _register(
        self,
        topics: str,
        version: int,
        addr: str,
        whole: bool | None,
        *,
        broker_id: int = 0,
        since: int = 0,
        now_ms: int = 0,
    ) -> Registered:
        def read() -> Mapping[str, TopicConfig]:
            self.read += 1
            return configs_of(topics)

        return self.table.register(
            request(addr, broker_id, whole, "a"),
            DataVersion(counter=version, timestamp=since),
            [],
            read,
            addr,
            now_ms,
        )

    @property
    def topics(self) -> str:
        return "".join(sorted(at_once(self.table.topics())))


def test_what_a_master_does_not_have_any_more_is_forgotten() -> None:
    world = World()
    world.whole("TUX", 1)
    world.table.register(
        request(B, 0, True, "b"), DataVersion(counter=1), [], lambda: configs_of("UV"), B, 0
    )
    assert world.whole("T", 2).forgotten == ("U", "X")
    assert world.topics == "TUV"
    route = world.table.route("U")
    assert route is not None
    assert [queue.broker_name for queue in route.queue_datas] == ["b"]
    assert world.table.route("X") is None


def test_an_answer_that_was_kept_goes_with_the_topic() -> None:
    world = World()
    world.whole("X", 1)
    assert world.table.encoded_route("X", standard=True) is not None
    world.whole("T", 2)
    assert world.table.encoded_route("X", standard=True) is None


def test_a_broker_of_the_original_has_nothing_forgotten() -> None:
    world = World()
    world.some("TX", 1)
    assert world.some("T", 2).forgotten == ()
    assert world.topics == "TX"


def test_what_came_late_is_forgotten_though_the_version_is_known() -> None:
    """X was deleted, which made the version 2, and told of again by what was under way."""
    world = World()
    world.whole("TX", 1)
    world.whole("T", 2)
    world.some("X", 1)
    assert world.topics == "TX"
    world.some("Y", 3)
    assert world.whole("TY", 3).forgotten == ("X",)
    assert world.topics == "TY"


def test_a_whole_table_is_looked_at_once() -> None:
    world = World()
    world.whole("TX", 1)
    world.whole("TX", 1)
    assert world.read == 1
    world.some("Y", 2)
    world.whole("TXY", 2)
    assert world.read == 3
    world.whole("TXY", 2)
    assert world.read == 3


def test_what_is_looked_at_for_what_it_lacks_is_not_registered_again() -> None:
    """A permission that was wiped, a topic that an administrator had forgotten: they come back with
    the next version, as ever."""
    world = World()
    world.whole("TX", 1)
    world.some("Y", 2)
    at_once(world.table.wipe_write_perm("a"))
    world.table.delete_topic("T")
    assert world.whole("TY", 2) == Registered(False, 0, forgotten=("X",))
    route = world.table.route("Y")
    assert route is not None
    assert [queue.perm for queue in route.queue_datas] == [4]
    assert world.topics == "Y"


@pytest.mark.parametrize(("version", "since"), [(1, 9), (2, 0), (2, 1)])
def test_an_older_table_has_nothing_forgotten(version: int, since: int) -> None:
    """What it lacks may have been made since."""
    world = World()
    world.whole("T", 1)
    world.some("Y", 2, since=2)
    assert world.whole("T", version, since=since).forgotten == ()
    assert world.topics == "TY"
    assert world.whole("TY", 2, since=2).forgotten == ()
    assert world.topics == "TY"


def test_an_older_table_takes_nothing_away_however_often_it_comes() -> None:
    """Its version is the known one then, but not the newest."""
    world = World()
    world.whole("TY", 2)
    for _ in range(3):
        assert world.whole("T", 1).forgotten == ()
    assert world.topics == "TY"


def test_a_slave_has_nothing_forgotten() -> None:
    world = World()
    world.whole("TY", 1)
    assert world.whole("T", 2, B, broker_id=1).forgotten == ()
    assert world.topics == "TY"


def test_the_next_leader_has_what_the_last_one_deleted_forgotten() -> None:
    world = World()
    world.whole("TX", 5)
    world.whole("T", 6, A, broker_id=1)
    assert world.whole("T", 6, B).forgotten == ("X",)


@pytest.mark.parametrize(("since", "forgotten"), [(3, ("X",)), (1, ())])
def test_the_next_leader_may_have_counted_to_the_same_number(
    since: int, forgotten: tuple[str, ...]
) -> None:
    world = World()
    world.whole("TX", 5, since=2)
    world.whole("T", 4, A, broker_id=1)
    assert world.whole("T", 5, B, since=since).forgotten == forgotten


def test_two_masters_of_one_name_have_nothing_of_each_other_forgotten() -> None:
    world = World()
    world.whole("T", 1)
    for version in (2, 3, 4):
        assert world.whole("U", version, B).forgotten == ()
        assert world.whole("T", version, A).forgotten == ()
    assert world.topics == "TU"


def test_one_that_still_believes_that_it_leads_has_nothing_forgotten() -> None:
    world = World()
    world.whole("TX", 5)
    world.whole("TXY", 6, B)
    assert world.whole("T", 7, A).forgotten == ()
    assert world.topics == "TXY"


@pytest.mark.parametrize("end", ["follows", "gone", "expired"])
def test_what_had_to_wait_for_the_other_master_goes_when_that_is_none_any_more(end: str) -> None:
    world = World()
    world.whole("TX", 5)
    assert world.whole("T", 6, B).forgotten == ()
    read = world.read
    assert world.whole("T", 6, B).forgotten == ()
    assert world.read == read
    if end == "follows":
        world.whole("T", 6, A, broker_id=1)
    elif end == "gone":
        world.table.disconnect(A)
    else:
        world.whole("T", 6, B, now_ms=BROKER_EXPIRED_MS + 1)
        world.table.expire(BROKER_EXPIRED_MS + 1)
    assert world.topics == "TX"
    assert world.whole("T", 6, B).forgotten == ("X",)
    assert world.topics == "T"


def test_a_master_that_comes_back_with_an_older_table_has_nothing_forgotten() -> None:
    """Its slave kept the name known, and may have what is left of the topics."""
    world = World()
    world.whole("TX", 9)
    world.whole("TX", 9, B, broker_id=1)
    world.table.disconnect(A)
    assert world.whole("T", 2).forgotten == ()
    assert world.topics == "TX"


def test_with_its_name_all_is_forgotten_that_was_known_of_its_versions() -> None:
    world = World()
    world.whole("T", 9)
    world.table.unregister(
        BrokerRequest(broker_name="a", broker_addr=A, cluster_name="C", broker_id=0)
    )
    world.whole("TX", 1)
    assert world.whole("T", 2).forgotten == ("X",)


def test_no_topic_at_all_is_no_table() -> None:
    world = World()
    world.whole("T", 1)
    assert world.whole("", 2).forgotten == ()
    assert world.topics == "T"


def in_steps(table: RouteTable, topics: str, version: int) -> Steps[Registered]:
    return table.register_in_slices(
        request(A, 0, True, "a"),
        DataVersion(counter=version),
        [],
        lambda: in_one(configs_of(topics)),
        "other",
        0,
    )


def test_others_have_their_turn_and_may_change_what_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_table, "TOPICS_AT_ONCE", 1)
    world = World()
    world.whole("TUX", 1)
    world.some("Y", 2)
    steps = in_steps(world.table, "TY", 2)
    next(steps)
    world.table.delete_topic("X")
    assert at_once(steps).forgotten == ("U",)
    assert world.topics == "TY"


def test_who_goes_meanwhile_has_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "TOPICS_AT_ONCE", 1)
    world = World()
    world.whole("TUX", 1)
    world.some("Y", 2)
    steps = in_steps(world.table, "T", 2)
    for _ in range(2):  # its topics are checked, and one is looked at
        next(steps)
    world.table.expire(BROKER_EXPIRED_MS + 1)
    with pytest.raises(BrokerGoneError):
        at_once(steps)
    assert world.topics == ""
