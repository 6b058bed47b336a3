"""``python -m examples.pipeline`` in a smaller size: real processes, a real kill. Only the batch
that checks it at the end runs in the session of all Spark tests."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.pipeline import __main__ as pipeline
from examples.pipeline.topics import ORDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commands_with(text: str) -> list[str]:
    """Of all processes that have it in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue
        if text in command and folder.name != str(os.getpid()):
            found.append(command)
    return found


def test_pipeline(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pipeline, "local_session", lambda *_, **__: nullcontext(spark))
    kept, report = tmp_path / "kept", tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        pipeline.main(
            ["--waves", "14", "--orders", "200", "--keep", str(kept), "--report", str(report)]
        )
    output, errors = capfd.readouterr()
    assert not ended.value.code, output + errors
    assert output.count("  yes  ") == 7
    assert "NO" not in output

    page = report.read_text()
    assert "Everything is as it should be." in page
    assert page.count("<svg") == 4
    assert "http" not in page
    assert commands_with(str(tmp_path)) == []


GOOD = b'{"number": 1, "at": "2026-05-01T10:00:00Z", "category": "books", "cents": 100}'


REASONS: dict[bytes, str | None] = {
    GOOD: None,
    b'{"more": [1], ' + GOOD[1:]: None,
    GOOD[:-1]: "is not JSON",
    b"hello": "is not JSON",
    GOOD.replace(b"books", b"caf\xe9"): "is not UTF-8",
    b"[" + GOOD + b"]": "number is missing",
    b"null": "number is missing",
    GOOD.replace(b"100", b"null"): "cents is missing",
    GOOD.replace(b"100", b"1.5"): "cents is no bigint",
    GOOD.replace(b"100", b"9" * 30): "cents is no bigint",
    GOOD.replace(b'"number": 1', b'"number": "1"'): "number is no bigint",
    GOOD.replace(b"2026-05-01T10:00:00Z", b"yesterday"): "at is no timestamp",
}


def test_why_a_message_is_no_row(spark: SparkSession) -> None:
    from examples.pipeline.job import problem

    frame = spark.createDataFrame([(body,) for body in REASONS], "body binary")
    rows = frame.select("body", problem(ORDER).alias("reason")).collect()
    assert {bytes(row["body"]): row["reason"] for row in rows} == REASONS
