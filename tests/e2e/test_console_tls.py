"""HTTPS between browser and console, TLS between console and cluster, or a proxy in front of it."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme

pytest.importorskip("starlette")

from .cluster import Cluster, asynchronous, until
from .console_browser import ConsoleProcess, a_page, chromium
from .console_client import TOKEN, a_console
from .test_client_tls import SecureCluster


class Files(NamedTuple):
    """What the console is given, and whom its clients trust."""

    options: tuple[str, ...]
    trust: ssl.SSLContext


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """A cluster that takes nothing but TLS."""
    with SecureCluster(tmp_path_factory.mktemp("secure")) as cluster:
        cluster.start_broker(**cluster.tls)
        yield cluster


@pytest.fixture(scope="module")
def files(secure: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("certificates")
    ca = trustme.CA()
    issued = ca.issue_cert("localhost")
    issued.private_key_pem.write_to_path(folder / "console.key")
    for pem in issued.cert_chain_pems:
        pem.write_to_path(folder / "console.pem", append=True)
    trust = ssl.create_default_context()
    ca.configure_trust(trust)
    (folder / "tls.properties").write_text("tls.client.authServer=false\n")
    (folder / "token").write_text(TOKEN)
    options = (
        "--tlsConfig", str(folder / "tls.properties"), "--certFile", str(folder / "console.pem"),
        "--keyFile", str(folder / "console.key"), "--tokenFile", str(folder / "token"),
        "--allow-changes", "--host", "localhost",
    )  # fmt: skip
    return Files(options, trust)


@pytest.fixture(scope="module")
def console(
    secure: SecureCluster, files: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    process = ConsoleProcess(
        secure.namesrv, tmp_path_factory.mktemp("console"), *files.options, scheme="https"
    )
    yield process
    assert process.end() == 0


@asynchronous
async def test_a_cluster_that_speaks_tls_by_https(console: ConsoleProcess, files: Files) -> None:
    async with httpx.AsyncClient(verify=files.trust, base_url=console.url, timeout=60) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        plain = console.url.replace("https", "http")
        answer = await client.post("/sign-in", data={"token": TOKEN}, headers={"origin": plain})
        assert answer.status_code == 403  # another origin
        own = {"origin": console.url}
        answer = await client.post("/sign-in", data={"token": TOKEN}, headers=own)
        assert answer.status_code == 303
        assert re.search(r"HttpOnly.*SameSite=strict.*Secure", answer.headers["set-cookie"])

        async def shown() -> bool:
            page = (await client.get("/")).text
            return "broker-a" in page and "Nothing is wrong" in page

        await until(shown, "the overview shows the broker")
        csrf = re.findall('name="csrf" value="([^"]+)"', (await client.get("/send")).text)
        body = {"csrf": csrf[0], "topic": "TBW102", "body": "x"}
        assert "SEND_OK" in (await client.post("/send", data=body, headers=own)).text
        async with client.stream("GET", "/live/overview") as events:
            async for line in events.aiter_lines():
                if "broker-a" in line:
                    break


def test_the_certificate_is_the_consoles(console: ConsoleProcess) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(console.url)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(console.url.replace("https", "http"))


def test_a_browser_by_https(console: ConsoleProcess) -> None:
    chromium()
    with a_page(console.url, trusting=True) as (page, _):
        page.goto("/")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Nothing is wrong").wait_for()
        before = page.locator("#age").inner_text()
        page.wait_for_function(
            "before => document.getElementById('age').innerText !== before", arg=before
        )


@asynchronous
async def test_a_cluster_that_speaks_tls_without_being_told(secure: SecureCluster) -> None:
    async with a_console(secure.namesrv) as asked:
        answer = await asked.client.get("/")
        assert answer.status_code == 502
        assert secure.namesrv in answer.text


@asynchronous
async def test_a_cluster_whose_certificate_nobody_signed(secure: SecureCluster) -> None:
    async with a_console(secure.namesrv, tls=ssl.create_default_context()) as asked:
        answer = await asked.client.get("/")
        assert answer.status_code == 502
        assert "certificate" in answer.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--certFile", "{0}/none.pem", "--keyFile", "{0}/none.key"), "none.pem"),
        (("--certFile", "{0}/text", "--keyFile", "{0}/text"), "text"),
        (("--certFile", "{0}/text"), "belong together"),
        (("--tlsConfig", "{0}/none"), "none"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """One line that names the file, before anything is served."""
    (tmp_path / "text").write_text("no certificate")
    command = [sys.executable, "-m", "aiorocketmq.console", "-n", "127.0.0.1:1", "--port", "0"]
    done = subprocess.run(
        [*command, *(each.format(tmp_path) for each in options)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("mqconsole: ")
    assert said in line


@asynchronous
async def test_behind_a_proxy_that_has_tls(shared: Cluster) -> None:
    """It is spoken to without TLS; the browser's pages are ``https``."""
    names = ("https://console.example",)
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True, public_hosts=names) as (
        asked
    ):
        for origin, status in (("http://console.example", 403), ("https://console.example", 303)):
            answer = await asked.client.post(
                "/sign-in",
                data={"token": TOKEN},
                headers={"host": "console.example", "origin": origin},
            )
            assert answer.status_code == status
        assert "Secure" in answer.headers["set-cookie"]
        answer = await asked.sign_in(token=TOKEN)
        assert "Secure" not in answer.headers["set-cookie"]
