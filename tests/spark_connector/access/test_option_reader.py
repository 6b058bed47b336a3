"""Texts of options to values, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.access.option_reader import OptionReader


def reader(**options: str) -> OptionReader:
    return OptionReader(options, {"KEY": "from the environment"})


def test_names_are_found_in_any_case_and_by_their_aliases() -> None:
    assert reader(NAMESERVER="a:1").text("rocketmq.namesrv.addr", "nameServer") == "a:1"
    assert reader(a="x", b="x").text("a", "b") == "x"
    with pytest.raises(ConfigError, match="a and b mean the same"):
        reader(a="x", b="y").text("a", "b")


def test_blank_is_nothing() -> None:
    assert reader(a="  ").text("a") is None
    assert reader(a="").integer("a", 7) == 7


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("7", 7), ("2 h", 7_200_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert reader(a=text).duration_ms("a", "1s") == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [("8m", 8 << 20), ("64k", 65536), ("100", 100), ("1gb", 1 << 30), ("2 MiB", 2 << 20)],
)
def test_sizes(text: str, size: int) -> None:
    assert reader(a=text).size_bytes("a", "1") == size


@pytest.mark.parametrize(
    ("method", "text", "said"),
    [
        ("duration_ms", "5x", "option a must be a time such as 500ms, 30s or 15m, not '5x'"),
        ("duration_ms", "9" * 5000, "option a must be a time such as 500ms"),
        ("size_bytes", "lots", "option a must be a size such as 64k or 8m"),
        ("size_bytes", "9" * 5000, "option a must be a size such as 64k or 8m"),
        ("integer", "9" * 5000, "option a must be a whole number, not"),
        ("integer", "many", "option a must be a whole number, not 'many'"),
        ("integer", "0", "option a must be a whole number from 1 to"),
        ("boolean", "maybe", "option a must be true or false, not 'maybe'"),
    ],
)
def test_bad_values_are_named(method: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        getattr(reader(a=text), method)("a", "1" if method.endswith(("ms", "bytes")) else 1)


def test_a_size_may_have_an_end() -> None:
    assert reader(a="8m").size_bytes("a", "1", highest=8 << 20) == 8 << 20
    with pytest.raises(ConfigError, match="at least 1 and at most 8388608 bytes, not '9m'"):
        reader(a="9m").size_bytes("a", "1", highest=8 << 20)


def test_an_unknown_name_is_refused_with_those_that_are_near() -> None:
    options = reader(maxOfsetsPerTrigger="5")
    options.optional_integer("maxOffsetsPerTrigger")
    with pytest.raises(
        ConfigError, match="no option maxOfsetsPerTrigger; did you mean maxOffsetsPerTrigger"
    ):
        options.finish()
    options = reader(zzz="5")
    options.text("subscribe")
    with pytest.raises(ConfigError, match="no option zzz; the options are subscribe"):
        options.finish()


def test_what_is_allowed_is_nobody_elses_business() -> None:
    options = reader(checkpointLocation="/x")
    options.allow("checkpointLocation")
    options.finish()


def test_secrets_come_from_a_file_or_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("from the file\n")
    assert reader(key="plain").secret("key") == "plain"
    assert reader(keyFile=str(path)).secret("key") == "from the file"
    assert reader(keyEnv="KEY").secret("key") == "from the environment"
    assert reader().secret("key") is None
    for options, said in (
        ({"key": "a", "keyEnv": "KEY"}, "give only one of"),
        ({"keyEnv": "NONE"}, "NONE is not set on the driver"),
        ({"keyFile": str(tmp_path / "none")}, "cannot be read on the driver"),
    ):
        with pytest.raises(ConfigError, match=said):
            reader(**options).secret("key")


def test_every_part_of_a_secret_is_a_known_name() -> None:
    options = reader(keyFile="", keyEnv="")
    options.secret("key")
    options.finish()
