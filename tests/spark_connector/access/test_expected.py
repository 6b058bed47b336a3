"""What the user says a read has to cover."""

from __future__ import annotations

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.expected import Expected, read_expected
from aiorocketmq.spark_connector.access.option_reader import OptionReader

QUEUES = {MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("u", "a", 0)}


def expected(**options: str) -> Expected:
    return read_expected(OptionReader(options, {}))


def test_names_or_a_number() -> None:
    assert expected() == Expected()
    assert expected(expectedBrokers="b, a,,b") == Expected(("b", "a"))
    assert expected(expectedBrokers=" 3 ", expectedQueues="8") == Expected((), 3, 8)


@pytest.mark.parametrize(
    "bad", [{"expectedBrokers": ","}, {"expectedBrokers": "0"}, {"expectedQueues": "many"}]
)
def test_what_is_neither(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        expected(**bad)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, []),
        ({"expectedBrokers": "a", "expectedQueues": "3"}, []),
        ({"expectedBrokers": "1"}, []),
        (
            {"expectedBrokers": "a,b"},
            ["the topic u is not on the broker b at present (expectedBrokers)"],
        ),
        (
            {"expectedBrokers": "2"},
            ["the topic u is on 1 of 2 brokers at present: a (expectedBrokers)"],
        ),
        (
            {"expectedQueues": "4"},
            ["there are 3 of 4 queues at present, on a, b (expectedQueues)"],
        ),
    ],
)
def test_what_is_missing_is_told(options: dict[str, str], told: list[str]) -> None:
    assert expected(**options).missing(["t", "u"], QUEUES) == told


def test_brokers_that_no_topic_is_on() -> None:
    assert expected(expectedBrokers="a,b,c").absent_brokers(QUEUES) == ["c"]
