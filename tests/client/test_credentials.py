"""Where an account comes from (client.md §7.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.client.credentials import credentials_from
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.signature import Credentials


def test_an_argument_wins(tmp_path: Path) -> None:
    own = Credentials("a", "b")
    environment = {"ROCKETMQ_ACCESS_KEY": "x", "ROCKETMQ_SECRET_KEY": "y"}
    assert credentials_from(own, environment) is own
    path = tmp_path / "key"
    path.write_text("AccessKey=RocketMQ\nSecretKey=12345678\n")
    assert credentials_from(path, environment) == Credentials("RocketMQ", "12345678")


@pytest.mark.parametrize(
    "text",
    [
        "AccessKey=RocketMQ\nSecretKey=012=:8\nSecurityToken=t\n",
        "accessKey: RocketMQ\nsecretKey: 012=:8\nsecurityToken: t",
        "# mine\n accessKey : 'RocketMQ'\nother: 1\nsecretKey: \"012=:8\"\n\nsecurityToken: t\n",
    ],
)
def test_files_of_both_kinds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(text)
    assert credentials_from(str(path), {}) == Credentials("RocketMQ", "012=:8", "t")


def test_the_environment(tmp_path: Path) -> None:
    assert credentials_from(None, {}) is None
    variables = {"ROCKETMQ_ACCESS_KEY": "a", "ROCKETMQ_SECRET_KEY": "b"}
    assert credentials_from(None, variables) == Credentials("a", "b")
    assert credentials_from(None, {**variables, "ROCKETMQ_SECURITY_TOKEN": "t"}) == Credentials(
        "a", "b", "t"
    )
    (tmp_path / "key").write_text("AccessKey=c\nSecretKey=d")
    assert credentials_from(
        None, {"ROCKETMQ_CLIENT_KEYFILE": str(tmp_path / "key")}
    ) == Credentials("c", "d")


@pytest.mark.parametrize("text", ["", "AccessKey=a", "SecretKey=b", "AccessKey=\nSecretKey=b"])
def test_half_an_account_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigError, match="has no"):
        credentials_from(tmp_path / "key", {})


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        credentials_from(tmp_path / "none", {})
    with pytest.raises(ConfigError, match="both"):
        credentials_from(None, {"ROCKETMQ_SECRET_KEY": "b"})
