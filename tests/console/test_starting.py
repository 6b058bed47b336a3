"""From options to who is asked for what: loopback unless told otherwise, and then with a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.console.app import hosts_of
from aiorocketmq.console.settings import ConsoleSettings
from aiorocketmq.console.starting import SHORTEST_TOKEN, lines_of, settings_of


def of(**options: Any) -> tuple[ConsoleSettings, bool]:
    return settings_of(namesrv="127.0.0.1:9876", **options)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_loopback_reading_takes_nothing(host: str) -> None:
    settings, made = of(host=host)
    assert (settings.token, settings.token_to_read, settings.allow_changes, made) == (
        None, False, False, False,
    )  # fmt: skip
    assert lines_of(settings, "http://localhost:1/", token_made=made) == [
        "console      http://localhost:1/"
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "fd00::1", "console.example"])
def test_elsewhere_it_insists_on_a_token(host: str) -> None:
    settings, made = of(host=host)
    assert made
    assert settings.token_to_read
    token = settings.token or ""
    assert len(token) >= SHORTEST_TOKEN
    address, line, encrypted = lines_of(settings, "http://there:1/", token_made=made)
    assert token not in address
    assert token in line
    assert "not encrypted" in encrypted
    assert token != of(host=host)[0].token
    assert token not in repr(settings)


def test_changes_take_a_token_on_loopback_too() -> None:
    settings, made = of(allow_changes=True)
    assert made
    assert settings.token
    assert not settings.token_to_read


def test_a_token_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    settings, made = of(token_file=str(path))
    assert (settings.token, settings.token_to_read, made) == ("0123456789abcdef", True, False)
    assert all("0123456789" not in line for line in lines_of(settings, "x", token_made=made))
    path.write_text("0123456789abcde")
    with pytest.raises(ConfigError, match="shorter than 16"):
        of(token_file=str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        of(token_file=str(tmp_path))


def test_a_certificate_without_its_key() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        of(certificate="x.pem")


@pytest.mark.parametrize("name", ["https://a.example/path", "ftp://a.example", "user@a", "a b", ""])
def test_a_public_host_that_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match="--publicHost"):
        of(public_hosts=[name])


def test_what_it_is_called() -> None:
    settings, _ = of(public_hosts=["Console.example", "https://proxied.example:8443"])
    assert hosts_of(settings, 8199) == {
        "localhost:8199": "http",
        "127.0.0.1:8199": "http",
        "[::1]:8199": "http",
        "console.example": "http",
        "proxied.example:8443": "https",
    }
    assert "localhost" in hosts_of(settings, 80)
    everywhere, _ = of(host="0.0.0.0")
    assert "0.0.0.0:8199" not in hosts_of(everywhere, 8199)
