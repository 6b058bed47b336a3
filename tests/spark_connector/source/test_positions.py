"""Where reading begins and ends."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.errors import CoverageError
from aiorocketmq.spark_connector.access.options import SourceOptions, parse_source_options
from aiorocketmq.spark_connector.source.positions import Resolved, find_queues, resolve_position

from ..simulated_cluster import SimCluster

ONE, TWO, OTHER = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("u", "b", 0)


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster()
    made.add(ONE, 10, 100, group_offset=40)
    made.add(TWO, 0, 50)
    made.add(OTHER, 0, 5)
    return made


def options(streaming: bool = True, **given: Any) -> SourceOptions:
    return parse_source_options({"namesrv": "ns:1", **given}, streaming=streaming, environment={})


def start(cluster: SimCluster, **given: Any) -> Resolved:
    parsed = options(subscribe="t", **given)
    return resolve_position(parsed.starting, [ONE, TWO], parsed, cluster)


# --- queues
# --------------------------------------------------------------------------------------------------


def test_queues_of_topics_a_pattern_and_an_assignment(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_queues(options(subscribe="t"), cluster, must_exist=True) == [ONE, TWO]
    assert find_queues(options(subscribePattern="[tu]"), cluster, must_exist=True) == [
        ONE,
        TWO,
        OTHER,
    ]
    assert caplog.text == ""
    assert find_queues(options(subscribePattern="x"), cluster, must_exist=True) == []
    assert "no topic matches x at present" in caplog.text
    for assign in ('{"t": {"a": [1]}, "u": [0]}', '{"t": [1], "u": {"b": [0]}}'):
        for must_exist in (True, False):
            assert find_queues(options(assign=assign), cluster, must_exist=must_exist) == [
                TWO,
                OTHER,
            ]


def test_what_was_named_must_be_there_at_the_beginning(cluster: SimCluster) -> None:
    with pytest.raises(ConfigError, match="no broker has the topic x: create it"):
        find_queues(options(subscribe="t,x"), cluster, must_exist=True)
    with pytest.raises(ConfigError, match="the queue t/a/7 is not among"):
        find_queues(options(assign='{"t": [7]}'), cluster, must_exist=True)
    assert find_queues(options(subscribe="t,x"), cluster, must_exist=False) == [ONE, TWO]


# --- positions
# --------------------------------------------------------------------------------------------------


def test_earliest_and_latest(cluster: SimCluster) -> None:
    assert start(cluster, startingOffsets="earliest") == ({ONE: 10, TWO: 0}, True)
    assert start(cluster, startingOffsets="latest") == ({ONE: 100, TWO: 50}, False)


def test_offsets_with_their_special_values(cluster: SimCluster) -> None:
    assert start(cluster, startingOffsets='{"t": {"0": 23, "1": -2}}') == ({ONE: 23, TWO: 0}, True)
    assert start(cluster, startingOffsets='{"t": {"a": {"0": 23, "1": -1}}}') == (
        {ONE: 23, TWO: 50},
        False,
    )


def test_all_queues_are_needed_or_a_rule_for_the_others(cluster: SimCluster) -> None:
    given = {"startingOffsets": '{"t": {"0": 23}}'}
    with pytest.raises(
        ConfigError, match="option startingOffsets: says nothing for t/a/1; all queues are needed"
    ):
        start(cluster, **given)
    assert start(cluster, **given, startingOffsetsMissing="earliest") == ({ONE: 23, TWO: 0}, True)
    assert start(cluster, **given, startingOffsetsMissing="latest") == ({ONE: 23, TWO: 50}, False)


def test_a_group_s_offsets(cluster: SimCluster) -> None:
    given = {"startingOffsets": "group", "consumerGroup": "g"}
    with pytest.raises(ConfigError, match="the group g has no offset for t/a/1"):
        start(cluster, **given)
    assert start(cluster, **given, startingOffsetsMissing="latest") == ({ONE: 40, TWO: 50}, False)


def test_times(cluster: SimCluster) -> None:
    assert start(cluster, startingTimestamp="45") == ({ONE: 45, TWO: 45}, True)
    assert start(cluster, startingOffsetsByTimestamp='{"t": {"0": 45, "1": 3}}') == (
        {ONE: 45, TWO: 3},
        True,
    )
    with pytest.raises(
        ConfigError, match="option startingTimestamp: nothing was stored at or after 70 in t/a/1"
    ):
        start(cluster, startingTimestamp="70")
    late = start(cluster, startingTimestamp="70", startingOffsetsByTimestampStrategy="latest")
    assert late == ({ONE: 70, TWO: 50}, False)


def test_a_message_that_comes_while_a_time_is_looked_for_is_not_left_out(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = cluster.offsets_for_times

    def searching(times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        found = searched(times)
        cluster.queues_[TWO].end = 71
        return found

    monkeypatch.setattr(cluster, "offsets_for_times", searching)
    late = start(cluster, startingTimestamp="70", startingOffsetsByTimestampStrategy="latest")
    assert late == ({ONE: 70, TWO: 50}, False)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"t": {"0": -2, "1": 3}}'},
        {"startingTimestamp": "5"},
    ],
    ids=["earliest", "queue", "time"],
)
def test_where_a_slave_begins_may_be_behind_what_its_master_keeps(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture, given: dict[str, str]
) -> None:
    """It deletes on its own, and one that is new has only what came since."""
    said = "the master of the broker a is away: its queues are read from where a slave of it begins"
    begins = start(cluster, **given)
    assert said not in caplog.text
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    assert start(cluster, **given) == begins
    assert caplog.text.count(said) == 1
    caplog.clear()
    cluster.queues_[ONE].first = 0
    assert start(cluster, **{**given, "startingTimestamp": "0"}).offsets[ONE] == 0
    assert said not in caplog.text


def end_of(cluster: SimCluster, **given: str) -> Resolved:
    parsed = options(streaming=False, subscribe="t", **given)
    return resolve_position(parsed.ending, [ONE, TWO], parsed, cluster)


BY_TIME = [{"endingTimestamp": "70"}, {"endingOffsetsByTimestamp": '{"t": {"0": 70, "1": 70}}'}]


@pytest.mark.parametrize("given", BY_TIME, ids=["one", "each"])
def test_an_end_by_time_that_only_a_slave_tells_is_one_when_it_has_what_comes_later(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture, given: dict[str, str]
) -> None:
    """What it lacks may be older than the time."""
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    cluster.queues_[ONE].lag = 29
    cluster.queues_[TWO].end = 80
    assert end_of(cluster, **given).offsets == {ONE: 70, TWO: 70}
    assert "only the rest" not in caplog.text
    cluster.queues_[ONE].lag = 35
    with pytest.raises(CoverageError, match="the master of the broker a is away, and its slave"):
        end_of(cluster, **given)
    assert end_of(cluster, **given, failOnDataLoss="false").offsets == {ONE: 65, TWO: 70}
    assert caplog.text.count("the master of the broker a is away, and its slave") == 1
    cluster.down.clear()
    assert end_of(cluster, **given).offsets == {ONE: 70, TWO: 70}


def test_ends(cluster: SimCluster) -> None:
    end = functools.partial(end_of, cluster)
    assert end().offsets == {ONE: 100, TWO: 50}
    assert end(endingOffsets='{"t": {"0": 23, "1": -1}}').offsets == {ONE: 23, TWO: 50}
    assert end(endingTimestamp="70").offsets == {ONE: 70, TWO: 50}
    with pytest.raises(
        ConfigError, match=r"option endingOffsets: says nothing for t/a/1; all queues are needed$"
    ):
        end(endingOffsets='{"t": {"0": 23}}', startingOffsetsMissing="latest")
