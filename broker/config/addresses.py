"""Which address and which ports a broker takes."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
from typing import Final

from ...remoting.transport.address import is_host
from .config import HA_PORT_DISTANCE, VIP_PORT_DISTANCE

_ATTEMPTS: Final = 50
_NEIGHBOURHOOD: Final = VIP_PORT_DISTANCE + HA_PORT_DISTANCE
FREE_PORTS: Final = range(15_000, 32_000)
"""Where to look for free ports: below those that systems give to outgoing connections, one of which
could take a port between the moment when it was found and that when somebody listens on it.
"""


async def resolve(host: str) -> str:
    """The IP address of a host; an address stays as it is. Raises ``OSError`` naming the host."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not is_host(host):
        raise OSError(f"brokerIP1={host} is no address and no name")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"brokerIP1={host} has no address ({error.strerror})") from error
    addresses = [str(each[4][0]) for each in found]
    return next((each for each in addresses if "." in each), addresses[0])


def free_port(host: str) -> int:
    """A port that is free together with those that a broker needs around it. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_ATTEMPTS):
        port = random.choice(FREE_PORTS)
        if all(
            _is_free(family, host, port + step)
            for step in (0, -VIP_PORT_DISTANCE, HA_PORT_DISTANCE)
        ):
            return port
    raise OSError(f"no free port was found for a broker in {_ATTEMPTS} attempts")


def free_ports(host: str, number: int) -> list[int]:
    """So many, none of which is one of those that a broker at another of them needs. Raises
    ``OSError``."""
    found: list[int] = []
    while len(found) < number:
        port = free_port(host)
        if all(abs(port - other) > _NEIGHBOURHOOD for other in found):
            found.append(port)
    return found


def _is_free(family: socket.AddressFamily, host: str, port: int) -> bool:
    with socket.socket(family) as probe:
        try:
            probe.bind((host, port))
        except (OSError, OverflowError):
            return False
    return True
