"""What the helpers refuse before Spark is asked; what they make of bodies is tested with Spark
(tests/e2e)."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.payload import (
    csv_columns,
    infer_json_schema,
    json_columns,
    to_csv_body,
    to_json_body,
)

pytest.importorskip("pyspark.sql.functions", reason="the extra [spark] is not installed")


class Frame:
    """A frame that may only be asked for its columns."""

    isStreaming = True
    columns = ("body", "tags")


FRAME: Any = Frame()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: json_columns(FRAME, "id long", body="value"),
            "no column value; the columns are body, tags",
        ),
        (lambda: json_columns(FRAME, "id long", keep=["msgId", "tags"]), "no column msgId"),
        (lambda: csv_columns(FRAME, "id long", keep=["key"]), "no column key"),
        (lambda: to_json_body(FRAME, tags="city"), "no column city"),
        (lambda: to_csv_body(FRAME, keys="id"), "no column id"),
        (lambda: infer_json_schema(FRAME), "infer from a batch read"),
    ],
)
def test_what_cannot_be(call: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        call()
