"""The account that mqadmin signs with, and one-line problems."""

from pathlib import Path

import pytest

from aiorocketmq.remoting.signature import Credentials
from aiorocketmq.tools.mqadmin.shell import CommandFailed, credentials, one_line


@pytest.fixture
def tools_yml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf" / "tools.yml"


@pytest.mark.parametrize(
    "text",
    [
        "accessKey: admin\nsecretKey: pass word\n",
        "# stock file\n\naccessKey : 'admin'  # who\nsecretKey: \"pass word\"\nother: x\n",
    ],
)
def test_account(tools_yml: Path, text: str) -> None:
    tools_yml.write_text(text)
    assert credentials() == Credentials("admin", "pass word")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accessKey: admin\n",
        "accessKey: admin\nsecretKey:\n",
        "accessKey: admin\nsecretKey: # no\n",
    ],
)
def test_half_an_account_is_none(
    tools_yml: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tools_yml.write_text(text)
    assert credentials() is None
    assert (
        capsys.readouterr().err
        == f"mqadmin: requests are not signed, {tools_yml} has no accessKey and secretKey\n"
    )


def test_a_file_that_is_no_text(tools_yml: Path) -> None:
    tools_yml.write_bytes(b"accessKey: \xff\n")
    with pytest.raises(CommandFailed, match="is no UTF-8 text"):
        credentials()


def test_no_file_no_account(tools_yml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials() is None
    monkeypatch.delenv("ROCKETMQ_HOME")
    assert credentials() is None


def test_one_line_whatever_a_peer_says() -> None:
    assert one_line("a\n b\t\x1b[2Jc\x00") == "a b \\x1b[2Jc\\x00"
    assert one_line(TimeoutError()) == "TimeoutError"
