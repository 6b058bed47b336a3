"""What is left of a batch write when it has failed, or is done."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructType

from aiorocketmq.spark_connector.sink import sink
from aiorocketmq.spark_connector.sink.sink import RocketMQArrowWriter, Written, batch_writer

from .test_staging import stage

SCHEMA = StructType().add("body", StringType())


def staging_writer(location: Path, **options: str) -> tuple[RocketMQArrowWriter, Written]:
    """And what a task of it has staged."""
    given = {"namesrv": "ns:1", "topic": "T", "guarantee": "exactly_once"}
    writer = batch_writer({**given, "stagingLocation": str(location), **options}, SCHEMA, False)
    folder = location / writer._write_id / "0"
    return writer, Written(0, 0, stage(folder, "part-0").task)


def test_a_write_that_nobody_can_repeat_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "send_batch", lambda *_, **__: 0)
    failed, written = staging_writer(tmp_path)
    done, too = staging_writer(tmp_path)
    failed.abort([written, None])
    done.commit([too])
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_is_repeated_finds_what_it_has_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "send_batch", lambda *_, **__: 0)
    writer, written = staging_writer(tmp_path, writeId="w")
    writer.abort([written])
    writer.commit([written])
    assert [path.name for path in (tmp_path / "w" / "0").iterdir()] == ["part-0"]


def test_what_cannot_be_deleted_hides_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer, _ = staging_writer(tmp_path)
    writer = RocketMQArrowWriter(writer._options, "x" * 300)
    with caplog.at_level(logging.WARNING):
        writer.abort([None])
    assert "staged rows are left behind" in caplog.text
