"""What was seen of a cluster from this machine: all that ``findings`` judges. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from ...remoting.errors import (
    BrokerError,
    ConnectionLostError,
    ConsumerNotOnline,
    ProtocolError,
    RequestNotSupported,
    RequestTimeout,
    RocketMQError,
)
from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicRouteData

ACL_EXCEPTION: Final = "AclException"
"""In the remark of every answer that access control gives."""


class Kind(Enum):
    """In which way something failed."""

    NO_ADDRESS = auto()
    UNKNOWN_HOST = auto()
    REFUSED = auto()
    """Nothing listens there."""
    NO_WAY = auto()
    """No connection, and nobody who said so."""
    CERTIFICATE = auto()
    """TLS, and one of the two does not take the other's certificate."""
    NO_HANDSHAKE = auto()
    """No TLS."""
    SILENT = auto()
    """A connection, and no answer."""
    CLOSED = auto()
    """A connection that ended in the place of an answer."""
    NONSENSE = auto()
    ACCESS = auto()
    """Refused by access control."""
    UNSUPPORTED = auto()
    """A request that the peer does not know."""
    OFFLINE = auto()
    """Nobody of that group is connected."""
    OTHER = auto()


class Trouble(NamedTuple):
    """Why there is no answer."""

    kind: Kind
    text: str
    """What the system or the peer said, in its words."""


def trouble_of(error: RocketMQError) -> Trouble:
    """What came of a question, once there was a connection."""
    text = str(error)
    if isinstance(error, BrokerError):
        text = error.remark or text
        if ACL_EXCEPTION in text:
            return Trouble(Kind.ACCESS, text.partition(ACL_EXCEPTION)[2].lstrip(": "))
    for of, kind in _KINDS.items():
        if isinstance(error, of):
            return Trouble(kind, text)
    return Trouble(Kind.OTHER, text)


_KINDS: Final[dict[type[RocketMQError], Kind]] = {
    RequestNotSupported: Kind.UNSUPPORTED,
    ConsumerNotOnline: Kind.OFFLINE,
    RequestTimeout: Kind.SILENT,
    ConnectionLostError: Kind.CLOSED,
    ProtocolError: Kind.NONSENSE,
}


class Speech(Enum):
    """What a server speaks, in the place of what it was spoken to in."""

    PLAIN = "plain"
    TLS = "TLS"


class Server(NamedTuple):
    """An address, and whether something there answers."""

    address: str
    trouble: Trouble | None = None
    speaks: Speech | None = None
    """Where it did not answer."""
    is_loopback: bool = False
    """It leads to this machine itself."""


class NameServer(NamedTuple):
    """An address that was given as that of a name server."""

    server: Server
    version: int = 0
    """The ordinal that its answer carries; 0: not known."""
    is_broker: bool = False
    cluster: ClusterInfo | None = None
    route: TopicRouteData | Trouble | None = None
    """Of the topic that was asked for; ``None``: of no topic, or it has none."""
    lost: Mapping[str, str] = {}
    """Brokers that died, as it remembers them: name -> last sign of life, ms since 1970."""


class Broker(NamedTuple):
    """One broker that a name server told of."""

    cluster: str
    name: str
    id: int
    server: Server
    runtime: Mapping[str, str] | Trouble | None = None
    """``None``: not asked, there is no connection."""
    config: Mapping[str, str] | Trouble | None = None
    asked_ms: int = 0
    """This machine's clock when the runtime information was asked for ..."""
    answered_ms: int = 0
    """... and when it was there."""
    vip: Trouble | None = None
    """Of the port for small requests, where one was looked for."""
    behind_bytes: int = 0
    """Of a slave: what it still lacks of the log that its master had when it was looked at first;
    below zero: what it has more than its master."""
    consumers: ConsumerConnection | Trouble | None = None
    """Of the group that was asked for."""

    @property
    def is_master(self) -> bool:
        return self.id == MASTER_ID

    @property
    def place(self) -> str:
        """As findings name it."""
        return f"broker {self.name} {self.id}, {self.server.address}"

    def figure(self, name: str) -> str:
        """From the runtime information; ``""`` where there is none."""
        return "" if self.runtime is None else _of(self.runtime, name)

    def setting(self, name: str) -> str:
        """From the configuration; ``""`` where there is none."""
        return "" if self.config is None else _of(self.config, name)


def _of(table: Mapping[str, str] | Trouble, name: str) -> str:
    return "" if isinstance(table, Trouble) else table.get(name, "")


class Seen(NamedTuple):
    """All of it, and how it was asked for."""

    name_servers: tuple[NameServer, ...]
    brokers: tuple[Broker, ...] = ()
    left_out: int = 0
    """Brokers that were not looked at, because there are too many."""
    topic: str | None = None
    group: str | None = None
    tls: bool = False
    """This machine spoke TLS."""
    signed: bool = False
    """With an account."""
    timeout_s: float = 3.0
    """For each question."""
    waited_s: float = 3.0
    """How long slaves were waited for."""
    trouble_of_account: str = ""
    """Why requests are not signed though there is a file with an account."""


def whole(text: str) -> int | None:
    """A number as a peer tells it; ``None`` for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
