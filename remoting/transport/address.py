"""Addresses: as people write them, and as sockets name them."""

from __future__ import annotations

from typing import Any

from ..errors import ConnectError


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``. Raises ``ConnectError``."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConnectError(f"'{address}' is no address; it must look like host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def format_address(host: str, port: int) -> str:
    """``ip:port``; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(name: Any) -> tuple[str, int]:
    """Address and port of a socket name; an IPv4 address that came in over IPv6 is an IPv4
    address."""
    if not isinstance(name, tuple) or len(name) < 2:
        return ("0.0.0.0", 0)  # noqa: S104 - no address
    host = str(name[0]).partition("%")[0]
    return (
        host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host,
        int(name[1]),
    )
