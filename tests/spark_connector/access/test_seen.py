"""What a stream says of itself in the progress of its query."""

from __future__ import annotations

import json

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.access.seen import Seen, from_json, name_of, to_json

LATEST = {MessageQueue("t", "a", 0): 7}


def test_there_and_back() -> None:
    seen = Seen(LATEST, "RocketMQ[Subscribe[t]]", 2, 1900, frozenset({"b", "c"}))
    assert from_json(json.loads(json.dumps(to_json(seen)))) == seen


@pytest.mark.parametrize("facts", [{}, {"#source": "x"}, {"#source": 3, "#losses": {}, "#away": 1}])
def test_offsets_are_what_has_to_be_there(facts: dict[str, object]) -> None:
    assert from_json({**facts, "t": {"a": {"0": 7}}}) == Seen(LATEST)


@pytest.mark.parametrize("table", [None, [], {"t": {"0": 7}}, {"t": 3}])
def test_others_are_refused(table: object) -> None:
    with pytest.raises(ConfigError):
        from_json(table)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"subscribe": "t,u"}, "Subscribe[t, u]"),
        ({"subscribePattern": "o.*"}, "SubscribePattern[o.*]"),
        ({"assign": '{"t":{"a":[1,0]}}'}, "Assign[t/a/0, t/a/1]"),
        ({"assign": '{"t":[0]}'}, "Assign[t/*/0]"),
    ],
)
def test_names_are_those_of_kafka_s_source(given: dict[str, str], name: str) -> None:
    options = parse_source_options({"namesrv": "ns:1", **given}, streaming=True, environment={})
    assert name_of(options) == f"RocketMQ[{name}]"
