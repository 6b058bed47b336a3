"""What every program of the package has alike."""

import contextlib
import logging
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from aiorocketmq.broker.daemon import RECORDS
from aiorocketmq.daemon.property_texts import help_text
from aiorocketmq.namesrv.config import ClusterTestConfig, NamesrvConfig
from aiorocketmq.remoting.protocol.wire import fields_of
from aiorocketmq.remoting.transport.flow import Limits
from aiorocketmq.remoting.transport.tls import TlsConfig

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
PROGRAMS: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Programs set the level of all that is ours."""
    own = logging.getLogger("aiorocketmq")
    before = own.level
    yield
    own.setLevel(before)


def run(program: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code."""
    module, _, function = PROGRAMS[program].partition(":")
    monkeypatch.setattr("sys.argv", [program, *arguments])
    # "python -m pytest" is who runs it here, and click would call it so
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")
    with pytest.raises(SystemExit) as ended:
        getattr(import_module(module), function)()
    return ended.value.code


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version(
    program: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(program, ["--version"], monkeypatch) in (0, None)
    out, err = capfd.readouterr()
    assert re.fullmatch(program + r" \S.*, leaves: (compiled|pure Python.*)\n", out), out
    assert err == ""


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("wrong", ["--nosuch", "no-such-word"])
def test_a_wrong_command_line(
    program: str, wrong: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(program, [wrong], monkeypatch) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(program + r": .*no-?such.*\n", err), err


@pytest.mark.parametrize("program", PROGRAMS)
def test_whoever_reads_what_is_printed_may_have_enough(
    program: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with contextlib.suppress(BrokenPipeError), open(writes, "w", buffering=1) as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert run(program, ["--help"], monkeypatch) in (0, 1, None)
    assert capfd.readouterr().err == ""


def test_a_property_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("mqcluster", ["--property", "brokerNam=x"], monkeypatch) == 2
    assert "brokerNam" in capfd.readouterr().err


def test_help_has_a_text_for_every_property() -> None:
    records = (*RECORDS, NamesrvConfig, ClusterTestConfig, TlsConfig, Limits)
    silent = [
        f"{record.__name__}.{field.wire_name}"
        for record in records
        for field in fields_of(record)
        if len(help_text(record, field)) < 8
    ]
    assert silent == []
