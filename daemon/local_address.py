"""The address under which this machine is known to others (``client.md`` §1.1;
RemotingUtil.getLocalAddress).

Over all interfaces except bridges: the first IPv4 address that begins with neither ``127.`` nor
``192.168``, else the last IPv4 address seen, else the first IPv6 address, else what the host name
resolves to, else ``127.0.0.1``.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
_ADDRESS_AT = slice(20, 24)


@functools.cache
def local_address() -> str:
    """Looked up once: the answer does not change under a running process."""
    return choose_address(_interface_addresses()) or _address_of_host_name() or "127.0.0.1"


def choose_address(addresses: Iterable[str]) -> str | None:
    """The rule alone, over addresses in the order of the interfaces."""
    last_v4 = first_v6 = None
    for text in addresses:
        address = ipaddress.ip_address(text)
        if address.is_loopback or address.is_unspecified:
            continue
        if address.version == 6:
            first_v6 = first_v6 or text
        elif not text.startswith(("127.0", "192.168")):
            return text
        else:
            last_v4 = text
    return last_v4 or first_v6


def _interface_addresses() -> Iterator[str]:
    """IPv4 first, bridges left out. Empty where the system offers no such list (anything but
    Linux)."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        names = [
            name
            for _, name in socket.if_nameindex()
            if not Path(f"/sys/class/net/{name}/bridge").exists()
        ]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for name in names:
                try:
                    answer = fcntl.ioctl(probe, _SIOCGIFADDR, _IFREQ.pack(name.encode()[:15]))
                except OSError:
                    continue  # an interface without an IPv4 address
                yield socket.inet_ntoa(answer[_ADDRESS_AT])
        yield from _ipv6_addresses(names)
    except OSError:
        return


def _ipv6_addresses(names: list[str]) -> Iterator[str]:
    """``/proc/net/if_inet6``: address in 32 hex digits ... interface name; link-local ones need a
    scope and are useless."""
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        columns = line.split()
        address = ipaddress.IPv6Address(int(columns[0], 16))
        if columns[-1] in names and not address.is_link_local:
            yield str(address)


def _address_of_host_name() -> str | None:
    try:
        return choose_address(
            str(found[4][0]).partition("%")[0]
            for found in socket.getaddrinfo(socket.gethostname(), None)
        )
    except OSError:
        return None
