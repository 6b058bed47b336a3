"""Addresses: as people write them, and as sockets name them."""

from __future__ import annotations

from typing import Any, Final

from ..errors import ConnectError

_MOST_DIGITS: Final = 5


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``. Raises ``ConnectError``."""
    host, colon, text = address.strip().rpartition(":")
    port = port_of(text)
    if not colon or not host or port is None:
        raise ConnectError(f"'{address[:200]}' is no address; it must look like host:port")
    return host.removeprefix("[").removesuffix("]"), port


def port_of(text: str) -> int | None:
    """A port, 1 to 65535; ``None`` for any other text. Peers name addresses too, and ``int`` raises
    for thousands of digits."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None
    return number if 0 < (number := int(text)) < 65536 else None


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
