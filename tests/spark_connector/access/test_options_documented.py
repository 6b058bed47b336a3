"""docs/spark.md names every option and every column that there is, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.access import option_reader
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.decode.schema import DEFAULT_COLUMNS, SOURCE_COLUMNS
from aiorocketmq.spark_connector.sink.sink_options import parse_sink_options
from aiorocketmq.spark_connector.sink.write_columns import WRITE_COLUMNS
from aiorocketmq.spark_connector.store.store_options import parse_store_options

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
SECRETS = {
    "rocketmq.accessKey",
    "rocketmq.secretKey",
    "rocketmq.securityToken",
    "rocketmq.tls.client.keyPassword",
}
BEHIND_SECRETS = {f"{name}{end}" for name in SECRETS for end in ("File", "Env")}
OF_SPARK = {"checkpointLocation", "queryName", "paths"}


def tables_below(*headings: str) -> set[str]:
    """What stands in backquotes in the first cells of the tables of these sections."""
    names: set[str] = set()
    for heading in headings:
        level = heading.count("#")
        text = re.split(
            rf"^#{{1,{level}}} ", PAGE.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE
        )[0]
        for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE):
            names |= set(re.findall(r"`([A-Za-z][\w.]+)`", cell))
    return names


def known(parse: object, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every name that a parser asks for."""
    asked: set[str] = set()

    class Noting(option_reader.OptionReader):
        def finish(self) -> None:
            asked.update(self._known.values())
            super().finish()

    for module in ("access.options", "sink.sink_options", "store.store_options"):
        monkeypatch.setattr(f"aiorocketmq.spark_connector.{module}.OptionReader", Noting)
    parse(options)  # type: ignore[operator]
    return asked - BEHIND_SECRETS - OF_SPARK


def test_options_for_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"nameServer": "ns:1", "topic": "T"}
    found = known(lambda given: parse_source_options(given, streaming=False), options, monkeypatch)
    assert found == tables_below("### Options for reading", "### Options for both directions")


def test_options_for_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = known(parse_sink_options, {"nameServer": "ns:1"}, monkeypatch)
    reading = {"rocketmq.namesrv.addr", "nameServer", "namesrv"}
    assert found - reading == tables_below(
        "### Options for writing", "### Options for both directions"
    )


def test_options_of_store_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert known(parse_store_options, {"path": str(tmp_path)}, monkeypatch) == tables_below(
        "## Store directories"
    )


def test_columns() -> None:
    assert tables_below("### Columns that are read") == set(SOURCE_COLUMNS)
    assert tables_below("### Columns that are written") == set(WRITE_COLUMNS)
    text = PAGE.split("### Columns that are read", 1)[1].split("###", 1)[0]
    assert tuple(re.findall(r"^\| `(\w+)` \| \w+ \| \*", text, re.MULTILINE)) == DEFAULT_COLUMNS


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_secrets_come_out_of_files_and_variables_too(name: str) -> None:
    given = {"nameServer": "ns:1", "topic": "T", f"{name}Env": "NO_SUCH_VARIABLE"}
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE is not set"):
        parse_source_options(given, streaming=False, environment={})
