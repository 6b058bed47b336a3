"""What every client takes: how to reach the cluster, under which name, and how often to speak up
(client.md §1.2)."""

from __future__ import annotations

import itertools
import os
import ssl
import time
from collections.abc import Sequence
from typing import Literal, TypedDict

from ..daemon.local_address import local_address
from ..remoting.clock import Clock
from ..remoting.protocol.message.topic_names import group_error, topic_error
from ..remoting.signature import Credentials
from .errors import ConfigError

_instances = itertools.count()


AccessChannel = Literal["LOCAL", "CLOUD"]


class ClientOptions(TypedDict, total=False):
    """Keyword arguments that Producer, PushConsumer, PullConsumer and Admin share. Times are
    seconds."""

    namesrv: str | Sequence[str] | None
    """``"host:9876"``, several separated by ``;`` or as a sequence. Default: the variable
    NAMESRV_ADDR."""
    address_server: str | None
    """Without ``namesrv``: an HTTP server that tells where they are, ``"host"``, ``"host:port"`` or
    a URL. Default: the variable ROCKETMQ_NAMESRV_DOMAIN."""
    credentials: Credentials | str | os.PathLike[str] | None
    """For brokers with an access control list: an account, or the file that it stands in. Default:
    the variables ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY, or the file
    ROCKETMQ_CLIENT_KEYFILE."""
    tls: ssl.SSLContext | None
    """For servers that speak TLS. Default: plain."""
    client_ip: str | None
    """The first part of the client id. Default: this machine's address."""
    instance_name: str | None
    """The second part of the client id. Default: one that no other instance has; choose one only to
    recognise it."""
    unit_name: str | None
    """Goes to the end of the client id and of the address server's URL."""
    namespace: str | None
    """Topics and groups are those of this tenant: ``shop%Order`` in the cluster is ``Order``
    here."""
    access_channel: AccessChannel
    """``"CLOUD"``: message traces go where, and look as, a cloud provider's console reads them.
    Default ``"LOCAL"``."""
    vip_channel: bool
    """Send, and talk of offsets, to the brokers' port - 2. Default False."""
    request_timeout: float
    """For routes, heartbeats, group members. Default 3."""
    heartbeat_interval: float
    """Default 30."""
    route_interval: float
    """How often known routes are asked for again. Default 30."""
    clock: Clock
    """For tests that own the time."""


def unique_instance_name() -> str:
    """``pid#time``: other than any other one in this process, on this machine, and in containers
    that share an address."""
    return f"{os.getpid()}#{time.time_ns() + next(_instances)}"


def client_id(
    ip: str | None, instance_name: str | None, unit_name: str | None = None, *, stream: bool = False
) -> str:
    """``ip@instance[@unit][@STREAM]``. Two clients with one id would take each other for one and
    leave queues unread."""
    unit = f"@{unit_name}" if unit_name else ""
    instance = instance_name or unique_instance_name()
    return f"{ip or local_address()}@{instance}{unit}{'@STREAM' if stream else ''}"


def vip_address(address: str) -> str:
    """The broker's other port, which is kept for small requests (client.md §2.7).

    >>> vip_address("10.0.0.1:10911")
    '10.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def checked_group(group: str) -> str:
    """The group name if it may be used. Raises ``ConfigError``."""
    if (why := group_error(group)) is not None:
        raise ConfigError(why)
    if group in ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER"):
        raise ConfigError(
            f"the group name {group} is reserved; choose one that names what the program does"
        )
    return group


def checked_topic(topic: str) -> str:
    """The topic name if it may be used. Raises ``ConfigError``."""
    if (why := topic_error(topic)) is not None:
        raise ConfigError(why)
    return topic


def positive(name: str, value: float) -> float:
    """The value of an option that must be above zero. Raises ``ConfigError`` naming it."""
    if not isinstance(value, (int, float)):
        raise ConfigError(f"{name} must be a number, not {value!r}")
    if not value > 0:
        raise ConfigError(f"{name} must be greater than 0, not {value!r}")
    return value
