"""How far a stream is behind, out of Spark's progress."""

from __future__ import annotations

from typing import Any

from aiorocketmq.spark_connector.lag import Lag, lags

SOURCE: dict[str, Any] = {
    "startOffset": {"t": {"a": {"0": 1, "1": 4}}},
    "endOffset": {
        "t": {"a": {"0": 3, "1": 10}},
        "#form": "2: a later version of aiorocketmq wrote this checkpoint",
        "#begins": {"t": {"a": {"1": 5}}},
        "#marks": {"t": {"a": {"0": 2}}},
        "#stored": {"t": {"a": {"0": 77}}},
    },
    "latestOffset": {
        "#source": "RocketMQ[Subscribe[t]]",
        "#losses": {"times": 2, "messages": 1900},
        "#away": ["c", "b"],
        "t": {"a": {"0": 10, "1": 10, "2": 5}},
    },
    "numInputRows": 6,
    "processedRowsPerSecond": 1.5,
}


def progress(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "1-2", "name": None, "batchId": 4, "sources": [*sources], **more}


def test_each_queue_counts_also_one_of_which_nothing_is_read_yet() -> None:
    [lag] = lags(progress(SOURCE, name="orders"))
    assert lag == Lag(
        "orders", "RocketMQ[Subscribe[t]]", 4, ("t",), 7, 6, 1.5, 3, 0, 7, 4.0, 12, 2, 1900,
        ("b", "c"),
    )  # fmt: skip
    assert str(lag) == (
        "query=orders source=RocketMQ[Subscribe[t]] batch=4 topics=t rows=6 leftOut=1 "
        "rowsPerSecond=2 queues=3 behindLatest total=12 min=0 max=7 avg=4.0 losses=2 "
        "lostMessages=1900 away=b,c"
    )


def test_offsets_may_be_texts_and_the_query_have_no_name() -> None:
    text = {**SOURCE, "endOffset": '{"t":{"a":{"0":3}}}', "latestOffset": '{"t":{"a":{"0":3}}}'}
    [lag] = lags(progress(text))
    assert (lag.query, lag.source, lag.total, lag.losses) == ("1-2", "RocketMQ[t]", 0, 0)


def test_the_first_batch_begins_where_its_end_says() -> None:
    [lag] = lags(progress({**SOURCE, "startOffset": None, "numInputRows": 20}))
    assert lag.offsets == 8
    assert lag.left_out == 0, "a source that is read twice gives its rows twice"


def test_other_sources_and_what_is_not_known_yet_are_left_out() -> None:
    kafka = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}
    unknown = {**SOURCE, "latestOffset": None}
    nothing_yet = {**SOURCE, "endOffset": None}
    odd = {**SOURCE, "endOffset": "no JSON"}
    assert [*lags(progress(kafka, unknown, nothing_yet, odd))] == []
    assert [*lags({})] == []
