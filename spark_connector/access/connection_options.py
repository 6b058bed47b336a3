"""How to reach a cluster: what options of reading and of writing have in common.

What stands here is pickled into tasks and may turn up in messages, so secrets are left out of every
``repr``.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client.cluster.server_addresses import ENVIRONMENT_VARIABLE, parse_addresses
from ...client.credentials import credentials_from, read_key_file
from ...client.errors import ConfigError
from ...client.namespaces import checked_namespace, namespace_of_address
from ...remoting.protocol.wire import to_fields
from ...remoting.signature import Credentials
from ...remoting.transport.tls import TlsConfig, client_context
from .option_reader import OptionReader

__all__ = ["ConnectionOptions", "read_connection"]


@dataclass(frozen=True)
class ConnectionOptions:
    """Name servers, account, TLS and namespace. Equal ones share their connections."""

    namesrv: tuple[str, ...]
    credentials: Credentials | None = field(default=None, repr=False)
    tls: TlsConfig | None = field(default=None, repr=False)
    namespace: str | None = None

    def ssl_context(self) -> ssl.SSLContext | None:
        """A new context; files are read where this is called. Raises ``TlsError``."""
        return None if self.tls is None else client_context(self.tls)


def read_connection(
    reader: OptionReader, environment: Mapping[str, str] = os.environ
) -> ConnectionOptions:
    """Takes the options that reading and writing share. Raises ``ConfigError``; that no name server
    is known ``reader.finish`` says."""
    text = reader.text("rocketmq.namesrv.addr", "nameServer", "namesrv") or environment.get(
        ENVIRONMENT_VARIABLE
    )
    namespace = checked_namespace(reader.text("rocketmq.namespace"))
    credentials, tls = _read_credentials(reader, environment), _read_tls(reader)
    if not text:
        reader.lacks(
            "no name server is known: give the option rocketmq.namesrv.addr, or set "
            f"{ENVIRONMENT_VARIABLE} on the driver"
        )
    addresses = (text or "").replace(",", ";")
    of_address = next(filter(None, map(namespace_of_address, addresses.split(";"))), None)
    return ConnectionOptions(
        namesrv=parse_addresses(addresses) if addresses else (),
        credentials=credentials,
        tls=tls,
        namespace=namespace or of_address,
    )


def _read_credentials(reader: OptionReader, environment: Mapping[str, str]) -> Credentials | None:
    access_key, secret_key = (
        reader.secret("rocketmq.accessKey"),
        reader.secret("rocketmq.secretKey"),
    )
    token, key_file = reader.secret("rocketmq.securityToken"), reader.text("rocketmq.keyFile")
    if token and (key_file is not None or not (access_key or secret_key)):
        raise ConfigError(
            "option rocketmq.securityToken belongs to rocketmq.accessKey and rocketmq.secretKey: "
            "give these, too (a file of keys has a token of its own)"
        )
    if key_file is not None:
        if access_key or secret_key:
            raise ConfigError(
                "give either the option rocketmq.keyFile or rocketmq.accessKey and "
                "rocketmq.secretKey"
            )
        return read_key_file(key_file)
    if access_key and secret_key:
        return Credentials(access_key, secret_key, token)
    if access_key or secret_key:
        raise ConfigError(
            "give both of the options rocketmq.accessKey and rocketmq.secretKey, or none"
        )
    return credentials_from(None, environment)


def _read_tls(reader: OptionReader) -> TlsConfig | None:
    """``rocketmq.tls.enable`` and the original's client properties behind ``rocketmq.``; the files
    are on every executor."""
    enabled = reader.boolean("rocketmq.tls.enable", False)
    trust = reader.text("rocketmq.tls.client.trustCertPath")
    config = TlsConfig(
        enable=enabled,
        client_cert_path=reader.text("rocketmq.tls.client.certPath"),
        client_key_path=reader.text("rocketmq.tls.client.keyPath"),
        client_key_password=reader.secret("rocketmq.tls.client.keyPassword"),
        client_auth_server=reader.boolean("rocketmq.tls.client.authServer", trust is not None),
        client_trust_cert_path=trust,
    )
    if not enabled and len(to_fields(config)) > len(to_fields(TlsConfig())):
        raise ConfigError(
            "options rocketmq.tls.client.* are given, but TLS is off: add rocketmq.tls.enable=true"
        )
    return config if enabled else None
