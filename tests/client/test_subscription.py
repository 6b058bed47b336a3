"""Tag expressions, and the second look at what a broker let through by hash code (client.md §7.1)."""

from __future__ import annotations

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.subscription import TagFilter, tag_subscription

from .messages import stored


@pytest.mark.parametrize("expression", [None, "", "*", " * "])
def test_everything(expression: str | None) -> None:
    subscription = tag_subscription("T", expression, 5)
    assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", (), ())
    assert subscription.sub_version == 5


def test_tags_are_split_and_hashed() -> None:
    subscription = tag_subscription("T", " TagA ||TagB|| || TagA", 5)
    assert subscription.tags_set == ("TagA", "TagB")
    assert subscription.code_set == (2598919, 2598920)


@pytest.mark.parametrize("expression", ["||", " || || "])
def test_an_expression_of_separators_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="names no tag"):
        tag_subscription("T", expression, 5)


def test_a_bad_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="characters"):
        tag_subscription("a b", "*", 5)


def test_tags_with_the_same_hash_are_told_apart() -> None:
    # "Aa" and "BB" have one hash code in Java.
    messages = [stored(0, properties={"TAGS": "Aa"}), stored(1, properties={"TAGS": "BB"}), stored(2)]
    kept = TagFilter(tag_subscription("T", "BB", 5)).keep(messages)
    assert [m.queue_offset for m in kept] == [1]
    assert TagFilter(tag_subscription("T", "*", 5)).keep(messages) is messages
