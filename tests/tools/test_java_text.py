"""Values as the original prints them: against its real output, and rules of their own."""

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.tools.mqadmin.java_text import (
    cut,
    fixed,
    hash_order,
    map_text,
    millis_text,
    parse_time,
    queue_text,
    seconds_text,
    subscription_group_text,
    topic_config_text,
)

from .golden_steps import golden_steps, step


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with summer time, so that UTC and local time differ."""
    if not hasattr(time, "tzset"):
        pytest.skip("the time zone of a process cannot be changed here")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_topic_config_as_the_original_prints_it() -> None:
    printed = step("updateTopic -c DefaultCluster -t GoldOrder -r 4 -w 4 -o true")
    config = TopicConfig(
        topic_name="GoldOrder", read_queue_nums=4, write_queue_nums=4, perm=6, order=True
    )
    assert printed.endswith("]" + topic_config_text(config))


def test_permissions_in_topic_config() -> None:
    printed = step("updateTopicPerm -b 127.0.0.1:27811 -t GoldToDelete -p 4")
    config = TopicConfig(topic_name="GoldToDelete", read_queue_nums=1, write_queue_nums=1, perm=4)
    assert topic_config_text(config) in printed


def test_subscription_group_as_the_original_prints_it() -> None:
    printed = step("updateSubGroup -b 127.0.0.1:27811 -g GID_gold_retry -r 1")
    config = SubscriptionGroupConfig(
        group_name="GID_gold_retry",
        consume_from_min_enable=False,
        consume_broadcast_enable=False,
        retry_max_times=1,
    )
    assert printed.endswith(subscription_group_text(config))


def test_hash_order_of_topics_is_the_originals() -> None:
    topics = step("topicList").split()
    assert len(topics) == 18  # 32 buckets
    assert hash_order(topics) == topics
    assert hash_order(sorted(topics)) != sorted(topics)


def test_hash_order_of_properties_is_the_originals() -> None:
    tables = re.findall(
        r"(?:properties=|Properties: +|props=)\{([^}]*)\}", "\n".join(golden_steps().values())
    )
    assert len(tables) >= 10
    for table in tables:
        keys = [entry.partition("=")[0] for entry in table.split(", ")]
        assert hash_order(keys) == keys


@given(st.lists(st.text(max_size=5), max_size=60))
def test_hash_order_keeps_every_key_once(keys: list[str]) -> None:
    assert sorted(hash_order(keys)) == sorted(set(keys))


def test_map_text() -> None:
    assert map_text({"TAGS": "TagA", "KEYS": "k1 k2"}) == "{KEYS=k1 k2, TAGS=TagA}"
    assert map_text({}) == "{}"


def test_queue_text() -> None:
    assert (
        queue_text(MessageQueue("T", "b1", 3)) == "MessageQueue [topic=T, brokerName=b1, queueId=3]"
    )


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.125, 2, "0.13"),
        (0.375, 2, "0.38"),
        (2.675, 2, "2.68"),
        (-0.125, 2, "-0.13"),
        (0.35, 4, "0.3500"),
        (498670.1727, 2, "498670.17"),
        (12, 2, "12.00"),
        (1e300, 0, f"{1e300:.0f}"),
        (float("nan"), 2, "NaN"),
        (float("-inf"), 2, "-Infinity"),
    ],
)
def test_fixed_rounds_half_up(number: float, digits: int, text: str) -> None:
    assert fixed(number, digits) == text


def test_times_are_local() -> None:
    assert seconds_text(1795212622614) == "2026-11-20 23:10:22"
    assert millis_text(1795212622004) == "2026-11-20 23:10:22,004"
    assert millis_text(1751364000000) == "2025-07-01 12:00:00,000"
    assert seconds_text(2**63 - 1) == seconds_text(0)  # nonsense from a peer is no traceback


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1795212622614", 1795212622614),
        (" -1 ", -1),
        ("2026-11-20#23:10:22:614", 1795212622614),
        ("2026-11-20#23:10:22:5", 1795212622005),
    ],
)
def test_parse_time(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-20", "2026-11-20#23:10:22", "2026-11-20 23:10:22:614", "1.5", "٣-1"],
)
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_time(text)


def test_cut_does_not_pad() -> None:
    assert cut("abc", 2) == "ab"
    assert cut("abc", 5) == "abc"
