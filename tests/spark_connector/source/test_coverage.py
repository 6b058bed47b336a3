"""What a query must cover, and what it says where it does not."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.errors import CoverageError, RangeTimeoutError
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.source.coverage import check_coverage

from ..plain_offsets import PlainOffsets
from ..simulated_cluster import SimClock, SimCluster
from .queries import options, query

ONE, TWO, THREE = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
ALL = {ONE: 100, TWO: 20, THREE: 7}


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster()
    for queue, end in ALL.items():
        made.add(queue, 0, end)
    return made


def drain(offsets: PlainOffsets, start: Offsets | None = None) -> Offsets:
    """As Spark does it for AvailableNow."""
    offsets.prepare_available_now()
    end = offsets.initial() if start is None else start
    while (later := offsets.latest(end)) != end:
        end = later
    return end


# --- what others tell
# --------------------------------------------------------------------------------------------------


def test_a_broker_that_another_name_server_knows_is_missing(cluster: SimCluster) -> None:
    cluster.told = {TWO: "the name server ns:2", THREE: "the name server ns:2"}
    check_coverage(options(), cluster, [ONE, TWO])
    said = "the topic t is not on the broker b at present, but the name server ns:2 tells of it"
    for given in ({}, {"subscribePattern": "t.*"}):
        with pytest.raises(CoverageError, match=said):
            check_coverage(options(**given), cluster, [ONE])
    check_coverage(options(assign='{"t": {"a": [0]}}'), cluster, [ONE])


def test_a_pattern_means_topics_that_only_a_missing_broker_has(cluster: SimCluster) -> None:
    cluster.told = {MessageQueue("t2", "b", 0): "the name server ns:1, which lost it,"}
    said = "the topic t2 is not on the broker b at present, but the name server ns:1, which lost"
    with pytest.raises(CoverageError, match=said):
        check_coverage(options(subscribePattern="t.*"), cluster, [ONE])
    check_coverage(options(subscribePattern="t"), cluster, [ONE])
    gone = options(subscribePattern="t.*", expectedBrokers="a")
    check_coverage(gone, cluster, [ONE])


def test_who_wants_the_rest_is_told_what_it_is(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CoverageError, match=r"is not on the broker c .*failOnDataLoss=false"):
        check_coverage(options(expectedBrokers="a,c"), cluster, [ONE])
    lenient = options(expectedBrokers="a,c", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        check_coverage(lenient, cluster, [ONE])
    assert [record.getMessage() for record in caplog.records] == [
        "the topic t is not on the broker c at present (expectedBrokers): only the rest is read "
        "(failOnDataLoss=false)"
    ]


# --- streams
# --------------------------------------------------------------------------------------------------


def test_a_query_does_not_begin_without_a_broker_that_is_expected(
    cluster: SimCluster, clock: SimClock
) -> None:
    cluster.unregistered = {"b"}
    for given in ({"expectedBrokers": "a,b"}, {"expectedBrokers": "2"}, {"expectedQueues": "3"}):
        with pytest.raises(CoverageError, match=r"expected"):
            query(cluster, clock, **given).initial()


def test_an_expected_broker_is_waited_for_like_one_of_the_checkpoint(
    cluster: SimCluster, clock: SimClock
) -> None:
    given = {"expectedBrokers": "a,b", "rocketmqConsumer.pollTimeoutMs": "60000"}
    offsets = query(cluster, clock, **given)
    cluster.unregistered = {"b"}
    assert offsets.latest({ONE: 0}) == {ONE: 100}
    clock.sleep(60)
    with pytest.raises(RangeTimeoutError, match="the broker b is away for 60 s now"):
        offsets.latest({ONE: 100})
    cluster.unregistered.clear()
    assert offsets.latest({ONE: 100}) == ALL


@pytest.mark.parametrize("how", ["down", "unregistered"])
def test_available_now_does_not_end_well_without_a_broker_of_its_checkpoint(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    getattr(cluster, how).add("b:0" if how == "down" else "b")
    start = {ONE: 50, TWO: 10, THREE: 0}
    offsets = query(cluster, clock)
    offsets.prepare_available_now()
    end = offsets.latest(start)
    assert end == {**start, ONE: 100}, "what is there comes first"
    with pytest.raises(CoverageError, match="the broker b is away, its queues were not read"):
        offsets.latest(end)
    with caplog.at_level(logging.WARNING):
        lenient = query(cluster, clock, failOnDataLoss="false")
        assert drain(lenient, start) == end
    told = [record.getMessage() for record in caplog.records]
    assert sum("the broker b is away, its queues were not read" in each for each in told) == 1


def test_available_now_does_not_end_well_where_a_broker_went_on_the_way(
    cluster: SimCluster, clock: SimClock
) -> None:
    """The checkpoint does not know its queues yet: one message a trigger is what they get."""
    offsets = query(cluster, clock, maxOffsetsPerTrigger="1")
    offsets.prepare_available_now()
    end = offsets.latest({ONE: 98})
    cluster.unregistered = {"b"}
    for queue in (TWO, THREE):
        end.pop(queue, None)
    with pytest.raises(CoverageError, match="the broker b is away"):
        drain_on(offsets, end)


def drain_on(offsets: PlainOffsets, end: Offsets) -> None:
    while (later := offsets.latest(end)) != end:
        end = later


def test_available_now_asks_again_who_was_away_at_its_beginning(
    cluster: SimCluster, clock: SimClock
) -> None:
    cluster.down = {"b:0"}
    offsets = query(cluster, clock)
    offsets.prepare_available_now()
    cluster.down.clear()
    assert offsets.latest({ONE: 100}) == ALL
    again = query(cluster, clock)
    cluster.down = {"b:0"}
    again.prepare_available_now()
    cluster.unregistered = {"b"}
    with pytest.raises(CoverageError, match="the broker b is away"):
        drain_on(again, {ONE: 100})


def test_available_now_does_not_end_well_without_what_is_expected(
    cluster: SimCluster, clock: SimClock
) -> None:
    assert drain(query(cluster, clock, expectedBrokers="2", expectedQueues="3")) == ALL
    cluster.unregistered = {"b"}
    with pytest.raises(CoverageError, match="there are 1 of 3 queues at present"):
        drain(query(cluster, clock, expectedQueues="3"), {ONE: 0})


def test_a_broker_that_left_for_good_is_forgotten_where_the_user_names_the_others(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    start = {ONE: 50, TWO: 10, THREE: 0}
    assert drain(query(cluster, clock, expectedBrokers="a"), start) == ALL, "not while it is there"
    cluster.unregistered = {"b"}
    with pytest.raises(CoverageError):
        drain(query(cluster, clock, expectedBrokers="1"), start)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert drain(query(cluster, clock, expectedBrokers="a"), start) == {ONE: 100}
    assert [each.getMessage() for each in caplog.records] == [
        "the broker b is away and not among expectedBrokers: its queues are forgotten"
    ]


def test_a_broker_that_is_away_holds_up_its_own_queues_for_ever_where_loss_is_allowed(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = query(cluster, clock, failOnDataLoss="false")
    cluster.down = {"b:0"}
    start = {ONE: 0, TWO: 0, THREE: 0}
    with caplog.at_level(logging.WARNING):
        for end in (100, 200, 300):
            cluster.queues_[ONE].end = end
            start = offsets.latest(start)
            assert start == {ONE: end, TWO: 0, THREE: 0}
            clock.sleep(3600)
    told = [each.getMessage() for each in caplog.records]
    assert len([each for each in told if "the broker b is away, its queues wait" in each]) == 1
    cluster.down.clear()
    assert offsets.latest(start) == {**ALL, ONE: 300}
