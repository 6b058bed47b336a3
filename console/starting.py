"""From options to how a console is served: which token it asks for, and what it prints."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..client.cluster.server_addresses import parse_addresses
from ..client.credentials import (
    ACCESS_KEY_VARIABLE,
    KEY_FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    SECURITY_TOKEN_VARIABLE,
)
from ..client.errors import ConfigError
from ..client.tls_file import tls_context
from ..remoting.transport.tls import TlsConfig, server_tls
from .settings import ConsoleSettings

MOST_TOKEN_BYTES: Final = 4096
SHORTEST_TOKEN: Final = 16


def forget_accounts() -> None:
    """The console has no rights of its own: an account in its environment is nobody's."""
    for name in (
        ACCESS_KEY_VARIABLE,
        SECRET_KEY_VARIABLE,
        SECURITY_TOKEN_VARIABLE,
        KEY_FILE_VARIABLE,
    ):
        os.environ.pop(name, None)


def settings_of(
    *,
    namesrv: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    public_hosts: Sequence[str] = (),
    allow_changes: bool = False,
    token_file: str | None = None,
    acl_files: Sequence[str] = (),
    **files: str | None,
) -> tuple[ConsoleSettings, bool]:
    """The settings, and whether a token was made for them. ``files``: ``certificate``, ``key``,
    ``audit_file``, ``tls_config``. Raises ``ConfigError``, ``TlsError``."""
    parse_addresses(namesrv)
    for name in public_hosts:
        _check_public_host(name)
    if bool(files.get("certificate")) != bool(files.get("key")):
        raise ConfigError("--certFile and --keyFile belong together")
    server_tls(
        TlsConfig(server_cert_path=files.get("certificate"), server_key_path=files.get("key"))
    )
    token = _read_token(token_file) if token_file is not None else None
    guarded = token is not None or not is_loopback(host)
    made = token is None and (guarded or allow_changes)
    return (
        ConsoleSettings(
            namesrv=namesrv,
            host=host,
            port=port,
            public_hosts=tuple(public_hosts),
            allow_changes=allow_changes,
            token=secrets.token_urlsafe(24) if made else token,
            token_to_read=guarded,
            acl_files=tuple(acl_files),
            tls=tls_context(files.get("tls_config")),
            certificate=files.get("certificate"),
            key=files.get("key"),
            audit_file=files.get("audit_file"),
        ),
        made,
    )


def _check_public_host(name: str) -> None:
    if not re.fullmatch(r"(https?://)?[^/@\s]+", name, re.IGNORECASE):
        raise ConfigError(f"--publicHost {name} is no name[:port], with http(s):// in front or not")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            token = file.read(MOST_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path} cannot be read: {error}") from None
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"the token in {path} is shorter than {SHORTEST_TOKEN} characters")
    return token


def lines_of(settings: ConsoleSettings, address: str, *, token_made: bool) -> list[str]:
    """What is printed. The token stands on a line of its own, never in an address."""
    lines = [f"console      {address}"]
    if token_made:
        why = "to look and to change" if settings.token_to_read else "to change something"
        lines.append(f"token        {settings.token} (needed {why})")
    if not is_loopback(settings.host) and settings.scheme == "http":
        lines.append("not encrypted: use --certFile and --keyFile, or a proxy that has TLS")
    return lines
