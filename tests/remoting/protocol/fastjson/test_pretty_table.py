"""The text of a table whose entries are kept is that of one that is written anew, whatever has
become of them."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.fastjson.pretty_table import PrettyTable
from aiorocketmq.remoting.protocol.fastjson.writer import dumps_pretty

NAMES = ["T", "%RETRY%g", "ü\n", '"']
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), st.integers(0, 2))), max_size=5
)


@given(st.lists(STEPS, max_size=6))
def test_a_kept_table_is_the_same_text(rounds: list[list[tuple[str, int | None]]]) -> None:
    """``None`` removes an entry; one that is made anew is the last."""
    kept, topics = PrettyTable(), dict[str, TopicConfig]()
    for number, steps in enumerate(rounds):
        for name, queues in steps:
            if queues is None:
                topics.pop(name, None)
            else:
                topics[name] = TopicConfig(topic_name=name, read_queue_nums=queues)
        table = TopicConfigTable(
            topic_config_table=dict(topics), data_version=DataVersion(counter=number)
        )
        assert kept.text(table) == dumps_pretty(table)


def test_other_tables() -> None:
    kept = PrettyTable()
    for queues in ({0: 1}, {0: 2, 1: 3}):
        offsets = ConsumerOffsetTable(offset_table={"T@g": queues})
        assert kept.text(offsets) == dumps_pretty(offsets)
    groups = SubscriptionGroupTable(
        subscription_group_table={"g": SubscriptionGroupConfig(group_name="g")}
    )
    assert PrettyTable().text(groups) == dumps_pretty(groups)


def test_one_more_entry_costs_next_to_nothing() -> None:
    """A fiftieth; a fifth would do."""
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(5_000)}
    kept = PrettyTable()
    whole, again = [], []
    for number in range(5):
        topics = {**topics, f"U{number}": TopicConfig(topic_name=f"U{number}")}
        table = TopicConfigTable(topic_config_table=topics)
        kept.text(table) if number == 0 else None
        begin = time.process_time()
        kept.text(table)
        again.append(time.process_time() - begin)
        begin = time.process_time()
        dumps_pretty(table)
        whole.append(time.process_time() - begin)
    assert min(again) < min(whole) / 5
