"""Addresses: as people write them, and as sockets name them."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from ..errors import ConnectError

_MOST_DIGITS: Final = 5
_LONGEST_HOST: Final = 255


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``. Raises ``ConnectError``."""
    host, colon, text = address.strip().rpartition(":")
    port = port_of(text)
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not is_host(host) or port is None:
        raise ConnectError(f"'{address[:200]}' is no address; it must look like host:port")
    return host, port


def is_host(text: str) -> bool:
    """Whether a system can be asked for it: an IP address, or what may be a name. Of anything else
    Python does not say that it is unknown, as an ``OSError``: ``socket`` raises ``UnicodeError``,
    ``ValueError`` or ``TypeError``. And peers name hosts, too.

    >>> is_host("ns1.example"), is_host("ns1..example")
    (True, False)
    """
    if not 0 < len(text) <= _LONGEST_HOST or "\0" in text:
        return False
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def is_ip_address(host: str) -> bool:
    """Of version 4 or 6; else it is a name, or nothing."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def are_two_addresses(one: str, other: str) -> bool:
    """Whether nothing that is listened on at the one can be in the way at the other one. A name may
    be any address, and what is none, or ``0.0.0.0``, is all of them."""
    if not (is_ip_address(one) and is_ip_address(other)):
        return False
    first, second = ipaddress.ip_address(one), ipaddress.ip_address(other)
    return first != second and not (first.is_unspecified or second.is_unspecified)


def port_of(text: str) -> int | None:
    """A port, 1 to 65535; ``None`` for any other text. Peers name addresses too, and ``int`` raises
    for thousands of digits."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None
    return number if 0 < (number := int(text)) < 65536 else None


def moved_port(address: str, distance: int) -> str:
    """Another port of the same host; what is no address stays as it is."""
    host, _, text = address.rpartition(":")
    port = port_of(text)
    return address if port is None else f"{host}:{port + distance}"


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
