"""TLS between server and client: modes, certificates of both, and a certificate that is changed."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiorocketmq.remoting.errors import ConnectError, ConnectionLostError
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.tls import (
    ServerTls,
    TlsConfig,
    TlsMode,
    client_context,
    server_tls,
)

from .remoting_service import QUERY, address, query, run, serving, until


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("server", "client"):
        issued = ca.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return {path.name: str(path) for path in folder.iterdir()}


def certificate(files: dict[str, str], **more: Any) -> ServerTls | None:
    return server_tls(
        TlsConfig(server_cert_path=files["server.pem"], server_key_path=files["server.key"], **more)
    )


def test_permissive_serves_both_on_one_port(certificates: dict[str, str]) -> None:
    async def main() -> None:
        trusting = client_context(
            TlsConfig(client_auth_server=True, client_trust_cert_path=certificates["ca.pem"])
        )
        async with serving(tls=certificate(certificates)) as server, RemotingClient() as plain:
            async with RemotingClient(tls=trusting) as secure:
                for client in (plain, secure):
                    assert (
                        await client.invoke(address(server), QUERY, query())
                    ).header.offset == 30

    run(main)


@pytest.mark.parametrize(
    ("mode", "secure", "served"),
    [
        (TlsMode.ENFORCING, True, True),
        (TlsMode.ENFORCING, False, False),
        (TlsMode.DISABLED, True, False),
        (TlsMode.DISABLED, False, True),
    ],
)
def test_modes(certificates: dict[str, str], mode: TlsMode, secure: bool, served: bool) -> None:
    async def main() -> None:
        context = client_context(TlsConfig()) if secure else None
        async with (
            serving(tls=certificate(certificates), tls_mode=mode) as server,
            RemotingClient(tls=context) as client,
        ):
            if served:
                assert (await client.invoke(address(server), QUERY, query())).header.offset == 30
            else:
                with pytest.raises((ConnectError, ConnectionLostError)):
                    await client.invoke(address(server), QUERY, query())

    run(main)


def test_without_certificate_a_tls_connection_is_closed_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def main() -> None:
        async with (
            serving() as server,
            RemotingClient(tls=client_context(TlsConfig())) as secure,
            RemotingClient() as plain,
        ):
            with pytest.raises((ConnectError, ConnectionLostError)):
                await secure.invoke(address(server), QUERY, query())
            assert (await plain.invoke(address(server), QUERY, query())).header.offset == 30

    run(main)
    assert [
        r.levelname for r in caplog.records if "no certificate is configured" in r.getMessage()
    ] == ["INFO"]


def test_client_certificates_are_required_when_asked_for(certificates: dict[str, str]) -> None:
    tls = certificate(
        certificates, server_auth_client=True, server_trust_cert_path=certificates["ca.pem"]
    )
    known = TlsConfig(
        client_cert_path=certificates["client.pem"], client_key_path=certificates["client.key"]
    )

    async def main() -> None:
        async with serving(tls=tls) as server:
            async with RemotingClient(tls=client_context(known)) as client:
                assert (await client.invoke(address(server), QUERY, query())).header.offset == 30
            async with RemotingClient(tls=client_context(TlsConfig())) as stranger:
                with pytest.raises((ConnectError, ConnectionLostError)):
                    await stranger.invoke(address(server), QUERY, query())

    run(main)


def test_a_changed_certificate_is_used_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old, new = trustme.CA(), trustme.CA()
    paths = {"server.pem": str(tmp_path / "server.pem"), "server.key": str(tmp_path / "server.key")}

    def issue(ca: trustme.CA, name: str) -> ssl.SSLContext:
        issued = ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(paths["server.key"])
        issued.cert_chain_pems[0].write_to_path(paths["server.pem"])
        ca.cert_pem.write_to_path(tmp_path / name)
        return client_context(
            TlsConfig(client_auth_server=True, client_trust_cert_path=str(tmp_path / name))
        )

    async def main() -> None:
        trusts_old = issue(old, "old-ca.pem")
        tls = certificate(paths)
        assert tls is not None
        async with serving(tls=tls) as server:
            async with RemotingClient(tls=trusts_old) as client:
                await client.invoke(address(server), QUERY, query())
            trusts_new = issue(new, "new-ca.pem")
            await until(lambda: "certificate reloaded" in caplog.text)
            async with RemotingClient(tls=trusts_new) as client:
                await client.invoke(address(server), QUERY, query())
            (tmp_path / "server.pem").write_text("broken")
            await until(lambda: "the old one stays" in caplog.text)
            async with RemotingClient(tls=trusts_new) as client:
                await client.invoke(address(server), QUERY, query())

    run(main)
