"""Who may speak to the console: every request, whatever it asks for."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from aiorocketmq.console.security import POLICY, refusal

HOSTS = {"localhost:8199": "http", "127.0.0.1:8199": "http", "console.example": "https"}
"""As one is called behind a proxy that has TLS, too."""


def answer(method: str = "GET", **headers: str) -> str | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(method, Headers({"host": "localhost:8199"} | named), HOSTS)


def test_a_page_that_somebody_opens() -> None:
    assert answer() is None
    assert answer(sec_fetch_site="none", sec_fetch_mode="navigate") is None
    assert answer(sec_fetch_site="same-origin", origin="http://localhost:8199") is None


def test_a_link_from_elsewhere_may_be_followed() -> None:
    assert (
        answer(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")
        is None
    )


@pytest.mark.parametrize(
    "host", ["evil.example:8199", "localhost:80", "localhost", "", "127.0.0.1:8199.evil.example"]
)
def test_another_name_that_resolves_to_us(host: str) -> None:
    assert "called" in (answer(host=host) or "")


def test_no_host_and_two_hosts() -> None:
    assert refusal("GET", Headers({}), HOSTS) is not None
    twice = Headers(raw=[(b"host", b"localhost:8199"), (b"host", b"localhost:8199")])
    assert refusal("GET", twice, HOSTS) is not None


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://localhost:8199", "http://localhost:3000", "null", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_origin(method: str, origin: str) -> None:
    assert "origin" in (answer(method, origin=origin) or "")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none-of-these"])
@pytest.mark.parametrize("mode", ["no-cors", "cors", "websocket", ""])
def test_a_page_of_another_site_reads_nothing(site: str, mode: str) -> None:
    """``localhost:3000`` is the same site, and has our cookies sent."""
    assert "another site" in (answer(sec_fetch_site=site, sec_fetch_mode=mode) or "")
    framed = answer(sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe")
    assert framed is not None


def test_a_change_says_where_it_comes_from() -> None:
    assert answer("POST") is not None
    assert answer("POST", origin="http://localhost:8199") is None
    moved = answer(
        "POST",
        origin="http://localhost:8199",
        sec_fetch_site="cross-site",
        sec_fetch_mode="navigate",
        sec_fetch_dest="document",
    )
    assert moved is not None


def test_nothing_but_our_own_files_runs() -> None:
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert "script-src 'self'" in POLICY


def test_behind_a_proxy_that_has_tls() -> None:
    """The proxy speaks plain HTTP with the console, the browser HTTPS with the proxy."""
    assert answer("POST", host="console.example", origin="https://console.example") is None
    assert answer("POST", host="console.example", origin="http://console.example") is not None
    assert answer("POST", host="localhost:8199", origin="https://localhost:8199") is not None
