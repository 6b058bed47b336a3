"""How a console is to be served."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings:
    """See the options of ``mqconsole``."""

    namesrv: str | None = None
    host: str = "127.0.0.1"
    port: int = 8199
    """0: any."""
    public_hosts: tuple[str, ...] = ()
    """``name`` or ``name:port``: what else the console is called; ``https://`` in front where a
    proxy has TLS for it."""
    allow_changes: bool = False
    token: str | None = field(default=None, repr=False)
    """Who signs in has to know it."""
    token_to_read: bool = False
    """Not only for changes."""
    acl_files: tuple[str, ...] = ()
    """Files of accounts to show, as brokers on this machine have them."""
    audit_file: str | None = None
    """``None``: standard error."""
    tls: ssl.SSLContext | None = None
    """For a cluster that speaks TLS."""
    certificate: str | None = None
    key: str | None = None
    """Files, for a console that speaks HTTPS."""

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"
