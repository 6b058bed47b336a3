"""What a TLS configuration cannot be, told before anything listens."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from aiorocketmq.remoting.transport import tls
from aiorocketmq.remoting.transport.tls import (
    TlsConfig,
    TlsError,
    TlsMode,
    TlsSettingsError,
    client_context,
    server_tls,
)


def test_enforcing_without_a_certificate() -> None:
    text = r"tls\.server\.mode=enforcing needs tls\.server\.certPath"
    with pytest.raises(TlsSettingsError, match=text):
        server_tls(TlsConfig(server_mode=TlsMode.ENFORCING))
    assert server_tls(TlsConfig()) is None, "permissive: plain"


def test_trusted_certificates_that_are_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "ca.pem")
    with pytest.raises(TlsError, match=r"ca\.pem: there is no such file"):
        client_context(TlsConfig(client_auth_server=True, client_trust_cert_path=path))
    Path(path).write_text("nonsense")
    with pytest.raises(TlsError, match=r"cannot use the trusted certificates .*ca\.pem: (?!there)"):
        client_context(TlsConfig(client_auth_server=True, client_trust_cert_path=path))


def encrypted_key(folder: Path) -> tuple[str, str]:
    """A certificate and its key, which the password "secret" opens."""
    issued = trustme.CA().issue_cert("localhost")
    cert, key = folder / "server.pem", folder / "server.key"
    issued.cert_chain_pems[0].write_to_path(cert)
    secret = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    return str(cert), str(key)


def test_an_encrypted_key_needs_its_password_and_asks_nobody(tmp_path: Path) -> None:
    """OpenSSL itself would wait for somebody at the terminal to type it, for ever."""
    cert, key = encrypted_key(tmp_path)
    with pytest.raises(
        TlsError, match=r"server\.key: it is encrypted, set tls\.server\.keyPassword"
    ):
        server_tls(TlsConfig(server_cert_path=cert, server_key_path=key))
    with pytest.raises(TlsError, match=r"it is encrypted, set tls\.client\.keyPassword"):
        client_context(TlsConfig(client_cert_path=cert, client_key_path=key))
    with pytest.raises(TlsError, match=r"cannot use the certificate"):
        server_tls(
            TlsConfig(server_cert_path=cert, server_key_path=key, server_key_password="wrong")
        )
    assert (
        server_tls(
            TlsConfig(server_cert_path=cert, server_key_path=key, server_key_password="secret")
        )
        is not None
    )


def test_a_certificate_that_nothing_comes_from_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO, a file system that hangs."""
    monkeypatch.setattr(tls, "PATIENCE_S", 0.2)
    cert, key = encrypted_key(tmp_path)
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    began = time.monotonic()
    for config in (
        TlsConfig(server_cert_path=fifo, server_key_path=key),
        TlsConfig(server_cert_path=cert, server_key_path=fifo),
        TlsConfig(server_cert_path=cert, server_key_path=key, server_key_password="secret",
        server_auth_client=True,
                  server_trust_cert_path=fifo),
    ):  # fmt: skip
        with pytest.raises(
            TlsError, match=r"fifo.*nothing could be read within 0\.2 s|fifo: it is no file"
        ):
            server_tls(config)
    with pytest.raises(TlsError, match="nothing could be read"):
        client_context(TlsConfig(client_cert_path=fifo))
    assert time.monotonic() - began < 5
