"""What every command is given: how to reach the cluster, where to print, what to do about
failures."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ...client.admin import Admin
from ...client.cluster.server_addresses import parse_addresses
from ...client.options import ClientOptions
from ...client.producer.producer import Producer
from ...client.tls_file import tls_context
from ...daemon.printable import printable
from ...remoting.errors import ConnectionLostError, RequestNotSupported, RocketMQError
from ...remoting.signature import Credentials
from .output import Output
from .patience import Patience

REQUEST_TIMEOUT_S: Final = 5.0


class CommandFailed(RocketMQError):
    """A command cannot do what was asked for; the text says why in one line."""


class WrongUsage(CommandFailed):
    """Options are missing, or do not go together."""


class Shell:
    """One run of one command."""

    def __init__(
        self,
        command: str,
        namesrv: str | None,
        output: Output,
        *,
        namesrv_by_option: bool = False,
        tls_config: str | None = None,
        wait_s: float = 0,
        broker_addr: str | None = None,
    ) -> None:
        self.out = output
        self._tls_config = tls_config
        self.namesrv_by_option = namesrv_by_option
        """The name servers were given with ``-n``."""
        self.failed: bool = False
        """Something went wrong, perhaps only with one of several brokers."""
        self._command = command
        self._namesrv = namesrv
        self._broker_addr = broker_addr
        self._patience = Patience(wait_s, broker_addr, self.tell)

    @property
    def namesrv(self) -> str:
        """The name servers. Raises ``WrongUsage`` when none are known."""
        if self._namesrv is None:
            raise WrongUsage(
                "no name server is known: add -n HOST:PORT or set the variable NAMESRV_ADDR"
            )
        return self._namesrv

    @asynccontextmanager
    async def admin(self, *, brokers: bool = True) -> AsyncIterator[Admin]:
        """The cluster, for the time of the block, once it is there (``--wait``). ``brokers``: name
        servers alone will not do."""
        async with Admin(**self.client_options()) as admin:
            await self._patience.wait(admin, for_brokers=brokers)
            yield admin

    def client_options(self) -> ClientOptions:
        """How every client reaches the cluster. Raises ``CommandFailed``."""
        try:
            tls = tls_context(self._tls_config)
        except RocketMQError as error:
            raise WrongUsage(str(error)) from None
        return {
            "namesrv": self.namesrv,
            "credentials": credentials(),
            "tls": tls,
            "request_timeout": REQUEST_TIMEOUT_S,
        }

    @asynccontextmanager
    async def producer(
        self, group: str | None = None, *, trace: bool = False
    ) -> AsyncIterator[Producer]:
        """A producer, by default in a group of its own, once the cluster is there."""
        async with self.admin():
            pass
        async with Producer(
            group or str(time.time_ns() // 1_000_000),
            send_timeout=REQUEST_TIMEOUT_S,
            trace=trace,
            **self.client_options(),
        ) as producer:
            yield producer

    def warn(self, problem: str | BaseException) -> None:
        """Say in one line on standard error what went wrong; the command goes on, its exit code
        will not be 0."""
        self.failed = True
        if isinstance(problem, RequestNotSupported) and self._asked_a_name_server():
            problem = f"{problem}; that is a name server, -b takes the address of a broker"
        if isinstance(problem, ConnectionLostError) and self._tls_config is None:
            problem = f"{problem}; where nothing but TLS is taken, add --tlsConfig FILE"
        self.tell(problem)

    def _asked_a_name_server(self) -> bool:
        return bool(self._namesrv) and self._broker_addr in parse_addresses(self._namesrv)

    def tell(self, what: str | BaseException) -> None:
        """A line on standard error, where no script that reads the output stumbles over it."""
        self.out.progress("")
        self.out.flush()
        print(f"mqadmin {self._command}: {one_line(what)}", file=sys.stderr, flush=True)


def one_line(problem: str | BaseException) -> str:
    """A text without line breaks and control characters, whatever a peer put into it."""
    words = " ".join(str(problem).split()) or type(problem).__name__
    return printable(words)


def credentials(tell: Callable[[str], None] | None = None) -> Credentials | None:
    """The account to sign with: ``accessKey`` and ``secretKey`` in ``conf/tools.yml`` of
    ROCKETMQ_HOME, if it is there.

    A file that lacks one of them is told about, by default on standard error. Raises
    ``CommandFailed``, ``OSError``.
    """
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home, "conf", "tools.yml") if home else None
    if path is None or not path.is_file():
        return None
    try:
        entries = dict(_yaml_entries(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is no UTF-8 text") from None
    access_key, secret_key = entries.get("accessKey"), entries.get("secretKey")
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    problem = f"requests are not signed, {path} has no accessKey and secretKey"
    if tell is not None:
        tell(problem)
    else:
        print(f"mqadmin: {problem}", file=sys.stderr)
    return None


def _yaml_entries(text: str) -> list[tuple[str, str]]:
    """``key: value`` lines of flat YAML; the file has no others."""
    entries = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith(("#", " ", "\t")):
            entries.append((name.strip(), _yaml_scalar(value.strip())))
    return entries


def _yaml_scalar(text: str) -> str:
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    return text.partition(" #")[0].strip() if not text.startswith("#") else ""
