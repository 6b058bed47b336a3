"""What brokers may have a name server know: more is refused in words, and what was known stays."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.namesrv import route_table
from aiorocketmq.namesrv.route_limits import RouteTableFullError, usual_topics
from aiorocketmq.namesrv.route_table import BROKER_EXPIRED_MS, BrokerGoneError, RouteTable
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion
from aiorocketmq.remoting.protocol.commands.route import MAX_NAME, RegisterBrokerRequest
from aiorocketmq.remoting.slices import Steps, at_once, in_one

from .test_route_table import A, B, broker, register, topic


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "TOPICS_AT_ONCE", 10)


def held(table: RouteTable) -> int:
    """Topics, each counted for each broker, also of brokers that are gone."""
    return sum(map(len, table._holders.values()))


def numbered(first: int, count: int) -> list[Any]:
    return [topic(f"t{number}") for number in range(first, first + count)]


# --- topics
# --------------------------------------------------------------------------------------------------


def test_topics_of_all_brokers_together_have_a_limit() -> None:
    table = RouteTable(lambda: 50)
    register(table, *numbered(0, 30))
    with pytest.raises(
        RouteTableFullError,
        match=r"b has 21 more topics, all brokers have 30: .* maxTopics=50; delete",
    ):
        register(table, *numbered(100, 21), addr=B, name="b")
    assert list(table.cluster_info().broker_addr_table) == ["a"]
    assert held(table) == 30
    register(table, *numbered(0, 20), addr=B, name="b")
    assert held(table) == 50


def test_what_a_broker_has_already_does_not_count_again() -> None:
    table = RouteTable(lambda: 50)
    register(table, *numbered(0, 50))
    register(table, *numbered(0, 50), version=2)
    register(table, version=3)
    with pytest.raises(RouteTableFullError):
        register(table, *numbered(0, 51), version=4)


def test_a_broker_that_is_refused_stays_with_what_it_had() -> None:
    table = RouteTable(lambda: 50)
    register(table, *numbered(0, 50), now_ms=0)
    with pytest.raises(RouteTableFullError):
        register(table, *numbered(0, 51), version=2, now_ms=BROKER_EXPIRED_MS)
    assert table.expire(2 * BROKER_EXPIRED_MS) == []
    assert len(at_once(table.topics())) == 50
    assert table.is_changed(broker(), DataVersion(counter=2))
    assert len(table.expire(2 * BROKER_EXPIRED_MS + 1)) == 1


def test_deleted_topics_and_brokers_that_went_make_room() -> None:
    table = RouteTable(lambda: 50)
    register(table, *numbered(0, 50))
    table.delete_topic("t0")
    register(table, topic("one"), addr=B, name="b")
    table.unregister(broker())
    register(table, *numbered(0, 49))


def test_what_brokers_had_that_are_gone_takes_room_until_it_is_given_back() -> None:
    """Nobody gets round the limit who registers, goes, and registers other topics, faster than it
    is tidied up."""
    table = RouteTable(lambda: 50)
    for round_ in range(4):
        register(table, *numbered(50 * round_, 50), name=f"n{round_}")
        assert held(table) == 50
        table.unregister(broker(name=f"n{round_}"))
    register(table, *numbered(0, 30))
    register(table, *numbered(100, 10), addr=B, name="b")
    table.unregister(broker(addr=B, name="b"))
    register(table, *numbered(200, 10), addr=B, name="b")
    assert held(table) == 50, "there was room without tidying up"


def test_a_broker_that_goes_while_its_topics_are_counted_has_none_of_them_any_more() -> None:
    table = RouteTable(lambda: 50)
    register(table, *numbered(0, 50))
    request = RegisterBrokerRequest(
        broker_name="a", broker_addr=A, cluster_name="C", ha_server_addr="", broker_id=0
    )
    configs = {each.topic_name: each for each in numbered(0, 50)}
    steps = table.register_in_slices(
        request, DataVersion(counter=2), [], lambda: in_one(configs), "x", 0
    )
    next(steps)
    table.unregister(broker())
    register(table, *numbered(100, 10), addr=B, name="b")
    with pytest.raises(RouteTableFullError, match="a has 50 more topics, all brokers have 10"):
        at_once(steps)


def test_the_limit_is_asked_for_each_time() -> None:
    limit = 1
    table = RouteTable(lambda: limit)
    with pytest.raises(RouteTableFullError):
        register(table, *numbered(0, 2))
    limit = 2
    register(table, *numbered(0, 2))


def test_the_usual_limit_is_a_quarter_of_the_memory_up_to_two_million() -> None:
    assert usual_topics(1 << 30) == (1 << 28) // 300
    assert usual_topics(64 << 30) == 2_000_000


# --- the rest
# --------------------------------------------------------------------------------------------------


def test_names_have_a_limit() -> None:
    table, long = RouteTable(), "x" * (MAX_NAME + 1)
    wrongs: list[dict[str, Any]] = [
        {"addr": long}, {"name": long}, {"cluster": long}, {"filters": [long]},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(
            RouteTableFullError, match=r"a name of 5.. characters, the limit is 512: x"
        ):
            register(table, **wrong)
    with pytest.raises(RouteTableFullError, match="a name of 513 characters"):
        register(table, topic(long))
    with pytest.raises(RouteTableFullError, match="a has 1001 filter servers, the limit is 1000"):
        register(table, filters=["f"] * 1001)
    assert not table.cluster_info().broker_addr_table


def test_brokers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "MAX_BROKERS", 3)
    table = RouteTable()
    for number in range(3):
        register(table, addr=f"h:{number}", name=f"n{number}")
    others: list[dict[str, Any]] = [
        {"addr": "h:9"}, {"name": "n9"}, {"cluster": "new"}, {"broker_id": 1},
    ]  # fmt: skip
    for new in others:
        with pytest.raises(RouteTableFullError, match=r"knows 3 brokers, n.* at h:.* is refused"):
            register(table, **{"addr": "h:0", "name": "n0"} | new)
    register(table, topic("T"), addr="h:0", name="n0", version=2)
    table.unregister(broker(addr="h:1", name="n1"))
    register(table, addr="h:9", name="n9")


def test_kept_routes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "KEPT_ROUTES", 5)
    table = RouteTable()
    register(table, *numbered(0, 20))
    for number in range(20):
        assert table.encoded_route(f"t{number}", standard=True) is not None
        assert len(table._encoded) <= 5


# --- brokers that go
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Topics that lost a holder."""
    found: list[str] = []
    really = RouteTable._let_go
    monkeypatch.setattr(
        RouteTable, "_let_go", lambda self, *what: (found.append(what[0]), really(self, *what))
    )
    return found


def test_a_broker_that_goes_costs_nothing_at_once_whatever_it_had(let_go: list[str]) -> None:
    table = RouteTable()
    register(table, *numbered(0, 95), connection="x")
    register(table, topic("t0"), addr=B, name="b")
    table.disconnect("x")
    assert let_go == []
    assert at_once(table.topics()) == ["t0"]
    assert table.route("t1") is None
    before = 0
    for _ in table.tidy_up():
        assert len(let_go) - before <= 10
        before = len(let_go)
    assert len(let_go) == 95
    assert held(table) == 1


def test_a_broker_that_comes_back_before_everything_was_tidied_up() -> None:
    table = RouteTable()
    register(table, *numbered(0, 30))
    table.unregister(broker())
    tidying = table.tidy_up()
    next(tidying)
    register(table, *numbered(15, 30))
    assert {topic for topic in at_once(table.topics()) if table.route(topic)} == {
        f"t{n}" for n in range(15, 45)
    }
    at_once(tidying)
    assert set(at_once(table.topics())) == set(table._holders) == {f"t{n}" for n in range(15, 45)}


def test_a_name_that_is_given_up_while_its_topics_are_registered() -> None:
    """Somebody else had its id, and has left: the broker itself was never unregistered."""
    table = RouteTable()
    request = RegisterBrokerRequest(
        broker_name="a", broker_addr=A, cluster_name="C", ha_server_addr="", broker_id=0
    )
    configs = {each.topic_name: each for each in numbered(0, 30)}
    steps = table.register_in_slices(request, DataVersion(), [], lambda: in_one(configs), "x", 0)
    while not table._live:
        next(steps)
    register(table, addr=B)
    table.unregister(broker(B))
    with pytest.raises(BrokerGoneError):
        at_once(steps)
    assert [table.route(topic) for topic in configs] == [None] * 30


def test_a_broker_may_go_while_its_topics_are_read() -> None:
    table = RouteTable()
    register(table, topic("old"))

    def read() -> Steps[dict[str, Any]]:
        yield
        table.unregister(broker())
        return {"T": topic("T")}

    request = RegisterBrokerRequest(
        broker_name="a", broker_addr=A, cluster_name="C", ha_server_addr="", broker_id=0
    )
    assert at_once(
        table.register_in_slices(request, DataVersion(counter=2), [], read, "x", 0)
    ).is_new
    assert at_once(table.topics()) == ["T"]
