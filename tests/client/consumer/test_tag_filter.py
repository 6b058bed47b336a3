"""The second look at what a broker let through by hash code (client.md §7.1)."""

from __future__ import annotations

from aiorocketmq.client.consumer.subscription import Sql, subscription_of, tag_subscription
from aiorocketmq.client.consumer.tag_filter import TagFilter

from ..messages import stored


def test_tags_with_the_same_hash_are_told_apart() -> None:
    # "Aa" and "BB" have one hash code in Java.
    messages = [
        stored(0, properties={"TAGS": "Aa"}),
        stored(1, properties={"TAGS": "BB"}),
        stored(2),
    ]
    kept = TagFilter(tag_subscription("T", "BB", 5)).keep(messages)
    assert [m.queue_offset for m in kept] == [1]
    assert TagFilter(tag_subscription("T", "*", 5)).keep(messages) is messages


def test_of_what_sql_let_through_nothing_is_dropped() -> None:
    messages = [stored(0, properties={"a": "9"})]
    assert TagFilter(subscription_of("T", Sql("a BETWEEN 0 AND 3"), 5)).keep(messages) is messages
