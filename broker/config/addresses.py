"""Which address and which ports a broker takes."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
from typing import Final

from ...daemon.launch import Settings
from ...remoting.transport.address import is_host, is_ip_address
from ...remoting.transport.config import ALL_INTERFACES
from .config import HA_PORT_DISTANCE, VIP_PORT_DISTANCE, BrokerConfig, BrokerServerConfig

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


def follow_bind_address(settings: Settings) -> None:
    """A broker that listens on one address only registers that, not the machine's, where
    ``brokerIP1`` and ``brokerIP2`` are not given: nobody could be reached at another one."""
    config, host = settings[BrokerConfig], settings[BrokerServerConfig].bind_address
    given = {each.name for each in settings.properties}
    if host not in ALL_INTERFACES:
        config.broker_ip1 = config.broker_ip1 if "brokerIP1" in given else host
        config.broker_ip2 = config.broker_ip2 if "brokerIP2" in given else host


def not_listened_on(config: BrokerConfig, server: BrokerServerConfig) -> list[str]:
    """What is registered and certainly wrong, as ``brokerIP2=10.0.0.1``: another address of this
    machine than ``bindAddress``. One that the machine does not have may be forwarded to it, and a
    name may be any address."""
    host = server.bind_address
    if host in ALL_INTERFACES or not is_ip_address(host):
        return []
    registered = {"brokerIP1": config.broker_ip1, "brokerIP2": config.broker_ip2}
    return [
        f"{name}={address}"
        for name, address in registered.items()
        if is_ip_address(address)
        and ipaddress.ip_address(address) != ipaddress.ip_address(host)
        and _is_free(_family(address), address, 0)
    ]


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def free_port(host: str) -> int:
    """A port that is free together with those that a broker needs around it. Raises ``OSError``."""
    family = _family(host)
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
