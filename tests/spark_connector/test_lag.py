"""How far a stream is behind, out of Spark's progress."""

from __future__ import annotations

from typing import Any

from aiorocketmq.spark_connector.lag import Lag, lags

SOURCE: dict[str, Any] = {
    "endOffset": {
        "t": {"a": {"0": 3, "1": 10}},
        "#form": "2: a later version of aiorocketmq wrote this checkpoint",
        "#marks": {"t": {"a": {"0": 2}}},
        "#stored": {"t": {"a": {"0": 77}}},
    },
    "latestOffset": {"t": {"a": {"0": 10, "1": 10, "2": 5}}},
    "numInputRows": 6,
    "processedRowsPerSecond": 1.5,
}


def progress(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "1-2", "name": None, "batchId": 4, "sources": [*sources], **more}


def test_each_queue_counts_also_one_of_which_nothing_is_read_yet() -> None:
    [lag] = lags(progress(SOURCE, name="orders"))
    assert lag == Lag("orders", 4, ("t",), 6, 1.5, 3, 0, 7, 4.0, 12)
    assert str(lag) == (
        "query=orders batch=4 topics=t rows=6 rowsPerSecond=2 queues=3 behindLatest total=12 min=0 "
        "max=7 avg=4.0"
    )


def test_offsets_may_be_texts_and_the_query_have_no_name() -> None:
    text = {**SOURCE, "endOffset": '{"t":{"a":{"0":3}}}', "latestOffset": '{"t":{"a":{"0":3}}}'}
    [lag] = lags(progress(text))
    assert (lag.query, lag.total) == ("1-2", 0)


def test_other_sources_and_what_is_not_known_yet_are_left_out() -> None:
    kafka = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}
    unknown = {**SOURCE, "latestOffset": None}
    nothing_yet = {**SOURCE, "endOffset": None}
    odd = {**SOURCE, "endOffset": "no JSON"}
    assert [*lags(progress(kafka, unknown, nothing_yet, odd))] == []
    assert [*lags({})] == []
