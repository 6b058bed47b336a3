"""What an address is."""

from __future__ import annotations

from .errors import ConnectError


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``. Raises ``ConnectError``."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConnectError(f"'{address}' is no address; it must look like host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
