"""Expressions that a consumer subscribes with (client.md §7.1)."""

from __future__ import annotations

import pytest

from aiorocketmq.client.consumer.subscription import (
    Sql,
    same_expression,
    subscription_of,
    tag_subscription,
)
from aiorocketmq.client.errors import ConfigError


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


def test_sql_is_sent_as_it_is() -> None:
    subscription = subscription_of("T", Sql("a BETWEEN 0 AND 3"), 5)
    assert (subscription.expression_type, subscription.sub_string) == ("SQL92", "a BETWEEN 0 AND 3")
    assert (subscription.tags_set, subscription.code_set, subscription.sub_version) == ((), (), 5)


def test_text_is_a_tag_expression() -> None:
    assert subscription_of("T", "TagA", 5) == tag_subscription("T", "TagA", 5)


@pytest.mark.parametrize(("topic", "expression"), [("T", ""), ("T", "  "), ("a b", "a = 1")])
def test_sql_that_says_nothing_and_bad_topics_are_refused(topic: str, expression: str) -> None:
    with pytest.raises(ConfigError):
        subscription_of(topic, Sql(expression), 5)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a >", "position 4: "),
        ("a = 010", "position 6: 10 follows a complete expression"),
        ("a LIKE 'n%'", "position 3: "),
        ("a = 1 AND " * 2000 + "a = 1", "characters|operands"),
    ],
)
def test_sql_that_is_none_is_refused_with_its_place(expression: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        subscription_of("T", Sql(expression), 5)
    assert len(str(refused.value)) < 1500


def test_tags_and_sql_of_the_same_text_are_not_the_same() -> None:
    by_tag, by_sql = tag_subscription("T", "a", 5), subscription_of("T", Sql("a"), 5)
    assert not same_expression(by_tag, by_sql)
    assert same_expression(by_sql, subscription_of("T", Sql("a"), 6))
