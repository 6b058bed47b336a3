"""What every client takes: how to reach the cluster, under which name, and how often to speak up
(client.md §1.2)."""

from __future__ import annotations

import inspect
import itertools
import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, TypeVar, get_args

import msgspec

from ..daemon.local_address import local_address
from ..remoting.clock import Clock
from ..remoting.signature import Credentials
from ..remoting.transport.address import port_of
from .errors import ConfigError
from .usage_errors import positive

_instances = itertools.count()


AccessChannel = Literal["LOCAL", "CLOUD"]

F = TypeVar("F", bound=Callable[..., None])
S = TypeVar("S", bound="Settings")


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
    clock: Clock | None
    """For tests that own the time."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one kind of client, with their defaults: the one place that knows them.

    A ``TypedDict`` of the same names, ``ClientOptions`` or one that extends it, is what type
    checkers and editors read at the constructors; ``tests/aiorocketmq/test_face.py`` holds the two
    together. Options that cannot work raise ``ConfigError``.
    """

    def require_positive(self, *names: str) -> None:
        """Raises ``ConfigError`` naming the option."""
        for name in names:
            positive(name, getattr(self, name))

    def require_counts(self, *names: str) -> None:
        """The same for whole numbers."""
        for name in names:
            count = int(positive(name, getattr(self, name)))
            msgspec.structs.force_setattr(self, name, count)


class ClientSettings(Settings, frozen=True, kw_only=True):
    """See ``ClientOptions``."""

    namesrv: str | Sequence[str] | None = None
    address_server: str | None = None
    credentials: Credentials | str | os.PathLike[str] | None = None
    tls: ssl.SSLContext | None = None
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    namespace: str | None = None
    access_channel: AccessChannel = "LOCAL"
    vip_channel: bool = False
    request_timeout: float = 3.0
    heartbeat_interval: float = 30.0
    route_interval: float = 30.0
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.access_channel not in get_args(AccessChannel):
            raise ConfigError(
                f"access_channel is one of {', '.join(get_args(AccessChannel))}, not "
                f"{self.access_channel!r}"
            )
        self.require_positive("request_timeout", "heartbeat_interval", "route_interval")


def settings_of(kind: type[S], options: Mapping[str, object]) -> tuple[S, Any]:
    """The settings that are among the options, and the rest. Raises ``ConfigError``."""
    own = {name: options[name] for name in kind.__struct_fields__ if name in options}
    return kind(**own), {name: value for name, value in options.items() if name not in own}


def takes(kind: type[Settings]) -> Callable[[F], F]:
    """For ``help()``: a constructor's ``**options`` stand for these settings, with these
    defaults."""

    def shown(init: F) -> F:
        signature = inspect.signature(init)
        *first, rest = signature.parameters.values()
        types = {
            name: text
            for each in kind.__mro__
            for name, text in vars(each).get("__annotations__", {}).items()
        }
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        required = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=rest.empty if default is msgspec.NODEFAULT else default,
                annotation=types[name],
            )
            for name, default in zip(names, (*required, *defaults), strict=True)
        ]
        init.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*first, *keywords, rest]
        )
        return init

    return shown


def known_options(client: object, options: ClientOptions) -> ClientOptions:
    """The options if all of them exist. Raises ``TypeError``, as Python does, naming the one that
    was meant."""
    for name in options:
        if name not in ClientOptions.__annotations__:
            import difflib  # only here: it is not needed to start

            own = {
                each
                for kind in type(client).__mro__[:-1]
                for each in inspect.signature(kind).parameters
            }
            meant = difflib.get_close_matches(name, [*own, *ClientOptions.__annotations__], n=1)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            raise TypeError(f"{type(client).__name__} has no option {name}{hint}")
    return options


def checked_tls(tls: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Raises ``ConfigError`` for what is none."""
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise ConfigError(
            f"tls is an ssl.SSLContext, such as ssl.create_default_context() makes, not {tls!r}"
        )
    return tls


DEFAULT_INSTANCE: Final = "DEFAULT"
"""The instance name of a client that was given none and has to find again what it left on the disk
(class ClientConfig)."""


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
    """The broker's other port, which is kept for small requests (client.md §2.7). What is no
    address stays as it is: who connects to it says so.

    >>> vip_address("10.0.0.1:10911")
    '10.0.0.1:10909'
    """
    host, _, text = address.rpartition(":")
    port = port_of(text)
    return address if port is None else f"{host}:{port - 2}"
