"""What only the writer of a stream refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructType

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.sink.stream_sink import stream_writer

SCHEMA = StructType().add("body", StringType())
OPTIONS = {"namesrv": "ns:1", "topic": "T", "guarantee": "exactly_once", "stagingLocation": "/s"}


@pytest.mark.parametrize("name", ["writeId", "batchId"])
def test_a_query_has_an_id_of_its_own(name: str) -> None:
    assert stream_writer(OPTIONS, SCHEMA, False)
    with pytest.raises(ConfigError, match="writeId is for batch writes"):
        stream_writer({**OPTIONS, "writeId": "w", name: "7"}, SCHEMA, False)
