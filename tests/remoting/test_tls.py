"""What a TLS configuration cannot be, told before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.tls import TlsConfig, TlsError, TlsMode, client_context, server_tls


def test_enforcing_without_a_certificate() -> None:
    with pytest.raises(TlsError, match=r"tls\.server\.mode=enforcing needs tls\.server\.certPath"):
        server_tls(TlsConfig(server_mode=TlsMode.ENFORCING))
    assert server_tls(TlsConfig()) is None, "permissive: plain"


def test_trusted_certificates_that_are_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "ca.pem")
    with pytest.raises(TlsError, match=r"ca\.pem: there is no such file"):
        client_context(TlsConfig(client_auth_server=True, client_trust_cert_path=path))
    Path(path).write_text("nonsense")
    with pytest.raises(TlsError, match=r"cannot use the trusted certificates .*ca\.pem: (?!there)"):
        client_context(TlsConfig(client_auth_server=True, client_trust_cert_path=path))
