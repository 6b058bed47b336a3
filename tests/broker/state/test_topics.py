"""Topics: what there is at the start, what sending makes, what administrators and name servers
change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.config.group_config import UNDECIDED_ID
from aiorocketmq.broker.state.topics import READ_WRITE, Topic, TopicChange, Topics, topic_sys_flag
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    TopicFilterType,
)

from ...sim import ManualClock


def make_topics(**settings: Any) -> Topics:
    config = BrokerConfig(broker_name="b", broker_cluster_name="C", **settings)
    return Topics(config, ManualClock())


def shape(topics: Topics, name: str) -> tuple[int, int, int] | None:
    topic = topics.get(name)
    return None if topic is None else (topic.read_queue_nums, topic.write_queue_nums, topic.perm)


def test_built_in_topics() -> None:
    topics = make_topics()
    found = {
        topic.name: (topic.read_queue_nums, topic.write_queue_nums, topic.perm) for topic in topics
    }
    assert found == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "C": (16, 16, 7),
        "b": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "C_REPLY_TOPIC": (1, 1, 6),
    }


def test_switches_of_the_built_in_topics() -> None:
    topics = make_topics(
        auto_create_topic_enable=False,
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
    )
    assert shape(topics, "TBW102") is None
    assert shape(topics, "C") == (16, 16, 1)
    assert shape(topics, "b") == (1, 1, 1)
    assert shape(topics, "RMQ_SYS_TRACE_TOPIC") == (1, 1, 6)


@pytest.mark.parametrize(("wish", "queues"), [(4, 4), (8, 8), (100, 8), (0, 0), (-3, 0)])
def test_sending_makes_a_topic_after_the_default_one(wish: int, queues: int) -> None:
    topics = make_topics()
    changes: list[tuple[Topic, TopicChange]] = []
    topics.listeners.append(lambda topic, change: changes.append((topic, change)))
    topic = topics.create_on_send("T", default_topic="TBW102", queue_nums=wish, sys_flag=1)
    assert topic is topics.get("T")
    assert shape(topics, "T") == (queues, queues, 6)
    assert topic is not None
    assert topic.config.topic_sys_flag == 1
    assert changes == [(topic, TopicChange.MADE)]
    assert topics.data_version.counter == 1


def test_sending_to_a_known_topic_changes_nothing() -> None:
    topics = make_topics()
    first = topics.create_on_send("T", default_topic="TBW102", queue_nums=2)
    again = topics.create_on_send("T", default_topic="TBW102", queue_nums=7)
    assert again is first
    assert topics.data_version.counter == 1


def test_no_topic_without_a_pattern_that_may_be_inherited() -> None:
    topics = make_topics()
    assert topics.create_on_send("T", default_topic="Unknown", queue_nums=4) is None
    assert topics.create_on_send("T", default_topic="SELF_TEST_TOPIC", queue_nums=4) is None
    assert "T" not in topics
    assert topics.data_version.counter == 0


def test_any_topic_that_may_be_inherited_is_a_pattern() -> None:
    topics = make_topics()
    multi = TopicConfig(
        topic_name="P",
        read_queue_nums=9,
        write_queue_nums=3,
        perm=5,
        topic_filter_type=TopicFilterType.MULTI_TAG,
    )
    topics.update(multi)
    topic = topics.create_on_send("T", default_topic="P", queue_nums=4)
    assert shape(topics, "T") == (3, 3, 4)
    assert topic is not None
    assert topic.multi_tag


def test_switching_automatic_creation_off_takes_the_right_from_the_default_topic() -> None:
    config = BrokerConfig(broker_name="b", broker_cluster_name="C")
    topics = Topics(config, ManualClock())
    config.auto_create_topic_enable = False
    assert topics.create_on_send("T", default_topic="TBW102", queue_nums=4) is None
    assert shape(topics, "TBW102") == (8, 8, READ_WRITE)


@pytest.mark.parametrize("pattern", ["C", "b", "TBW102"])
def test_without_automatic_creation_no_built_in_topic_is_a_pattern(pattern: str) -> None:
    """Senders name the pattern. One that an administrator has made for this is one."""
    topics = make_topics(auto_create_topic_enable=False)
    topics.update(TopicConfig(topic_name="TBW102", perm=7))
    topics.update(TopicConfig(topic_name="Mine", read_queue_nums=2, write_queue_nums=2, perm=7))
    assert topics.create_on_send("T", default_topic=pattern, queue_nums=4) is None
    assert topics.create_on_send("T", default_topic="Mine", queue_nums=4) is not None


def test_topics_of_the_broker_itself() -> None:
    topics = make_topics()
    topic = topics.create_for_broker("%RETRY%g", queue_nums=2, sys_flag=2)
    assert (topic.read_queue_nums, topic.perm, topic.config.topic_sys_flag) == (2, 6, 2)
    assert topics.create_for_broker("%RETRY%g", queue_nums=5) is topic
    assert topic.read_queue_nums == 2


def test_the_retry_topic_of_a_group_that_comes_up_is_waited_for_by_nobody() -> None:
    topics = make_topics()
    changes: list[TopicChange] = []
    topics.listeners.append(lambda _topic, change: changes.append(change))
    topic = topics.create_for_group("%RETRY%g", queue_nums=2, sys_flag=2)
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm, topic.config.topic_sys_flag) == (2, 6, 2)
    assert topics.create_for_group("%RETRY%g") is topics.create_for_broker("%RETRY%g") is topic
    assert changes == [TopicChange.FOR_GROUP]


@pytest.mark.parametrize("broker_id", [1, UNDECIDED_ID])
def test_the_retry_topic_of_a_group_that_comes_up_at_a_slave_is_its_masters_to_make(
    broker_id: int,
) -> None:
    topics = make_topics(broker_id=broker_id)
    changes: list[TopicChange] = []
    topics.listeners.append(lambda _topic, change: changes.append(change))
    assert topics.create_for_group("%RETRY%g") is None
    assert ("%RETRY%g" in topics, topics.data_version.counter, changes) == (False, 0, [])
    theirs = TopicConfig(topic_name="%RETRY%g", read_queue_nums=3)
    topics.take_over(theirs, DataVersion(counter=1, timestamp=1))
    assert topics.create_for_group("%RETRY%g") is topics.get("%RETRY%g")
    assert changes == []


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "a.b", "é", "x" * 128, "a\0b"])
def test_a_name_that_is_no_topic_is_never_made(name: str) -> None:
    topics = make_topics()
    with pytest.raises(RequestError):
        topics.create_on_send(name, default_topic="TBW102", queue_nums=1)
    with pytest.raises(RequestError):
        topics.create_for_broker(name)
    with pytest.raises(RequestError):
        topics.update(TopicConfig(topic_name=name))
    assert name not in topics


def test_an_administrator_changes_a_topic_in_place() -> None:
    topics = make_topics()
    topic = topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
    topic.put_nums = 17
    topics.update(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=2, perm=4))
    assert topics.get("T") is topic
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.max_queue_nums) == (8, 2, 8)
    assert (topic.readable, topic.writeable) == (True, False)
    assert topic.put_nums == 17
    assert topics.data_version.counter == 2


def test_deletion() -> None:
    topics = make_topics()
    topics.update(TopicConfig(topic_name="T"))
    gone: list[str] = []
    topics.listeners.append(
        lambda topic, change: gone.append(topic.name) if change is TopicChange.DELETED else None
    )
    assert topics.delete("T")
    assert not topics.delete("T")
    assert gone == ["T"]
    assert topics.get("T") is None
    assert topics.data_version.counter == 2


def test_order_is_what_the_name_server_says() -> None:
    topics = make_topics()
    topics.update(TopicConfig(topic_name="A"))
    topics.update(TopicConfig(topic_name="B"))
    assert topics.set_order_topics({"A", "unknown"})
    assert [topic.name for topic in topics if topic.order] == ["A"]
    assert topics.set_order_topics({"B"})
    assert [topic.name for topic in topics if topic.order] == ["B"]
    version = topics.data_version
    assert not topics.set_order_topics({"B"})
    assert topics.data_version == version


def test_system_topics() -> None:
    topics = make_topics()
    assert all(
        topics.is_system(name) for name in ("TBW102", "C", "b", "C_REPLY_TOPIC", "rmq_sys_anything")
    )
    assert not topics.is_system("T")
    assert {"C", "b", "TBW102", "RMQ_SYS_TRANS_HALF_TOPIC"} <= set(topics.system_topics())


def test_the_file_wins_over_the_built_in_topics() -> None:
    topics = make_topics()
    version = DataVersion(counter=7, timestamp=5)
    saved = {
        "TBW102": TopicConfig(topic_name="TBW102", write_queue_nums=2),
        "T": TopicConfig(topic_name="elsewhere"),
    }
    topics.load(TopicConfigTable(topic_config_table=saved, data_version=version))
    assert shape(topics, "TBW102") == (16, 2, 6)
    assert shape(topics, "SELF_TEST_TOPIC") == (1, 1, 6)
    assert shape(topics, "T") == (16, 16, 6)
    assert topics.data_version == version
    assert topics.record().topic_config_table["T"].topic_name == "T"


def test_a_name_in_the_file_that_is_no_topic_is_left_out() -> None:
    topics = make_topics()
    topics.load(TopicConfigTable(topic_config_table={"../x": TopicConfig(topic_name="../x")}))
    assert "../x" not in topics


configs = st.builds(
    TopicConfig,
    topic_name=st.from_regex(r"[%|a-zA-Z0-9_-]{1,127}", fullmatch=True),
    read_queue_nums=st.integers(0, 100),
    write_queue_nums=st.integers(0, 100),
    perm=st.integers(0, 15),
    topic_filter_type=st.sampled_from(TopicFilterType),
    order=st.booleans(),
)


@given(st.lists(configs, max_size=6))
def test_what_is_saved_is_what_is_loaded(wanted: list[TopicConfig]) -> None:
    topics = make_topics()
    for config in wanted:
        topics.update(config)
    others = make_topics()
    others.load(topics.record())
    assert others.record() == topics.record()


@pytest.mark.parametrize(
    ("name", "unit_mode", "flag"),
    [("T", False, 0), ("T", True, 1), ("%RETRY%g", True, 2), ("%RETRY%g", False, 0)],
)
def test_sys_flag_of_unit_mode(name: str, unit_mode: bool, flag: int) -> None:
    assert topic_sys_flag(name, unit_mode=unit_mode) == flag


def test_who_sends_to_no_topic_again_and_again_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = make_topics()
    for name in ("T", "U"):
        for _ in range(50):
            assert topics.create_on_send(name, default_topic="none", queue_nums=4) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"no topic made: the default topic is unknown topic={name} default=none" for name in "TU"
    ]
