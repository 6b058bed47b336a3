"""``GET /metrics`` for Prometheus, on a port of its own (``prometheusPort``, off by default).

A scrape is made in slices of well under a millisecond on the event loop. A thread would not do: it
would hold the interpreter for 5 ms at a time. The port asks for no password; it listens on
``prometheusAddress``, by default on this machine only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from ...remoting.clock import Clock
from ...remoting.transport.accepting import accept_all, listening_socket
from .metrics import BrokerMetrics

log: Final = logging.getLogger(__name__)

MAX_SCRAPES: Final = 4
"""At the same time; more are answered 503."""
MAX_CONNECTIONS: Final = 64
"""More are closed."""
MAX_HEAD_BYTES: Final = 16 * 1024
_TIMEOUT_S: Final = 10.0


class PrometheusServer:
    """Service: serves scrapes. ``listen`` binds the port."""

    def __init__(self, metrics: BrokerMetrics, host: str, port: int, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._host = host
        self._port = port
        self._process = ProcessCollector(registry=None)
        self._socket: socket.socket | None = None
        self._group: asyncio.TaskGroup | None = None
        self._scrapes = 0

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1]) if self._socket is not None else self._port

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        self._socket = listening_socket(
            self._host, self._port, MAX_CONNECTIONS, port_property="prometheusPort"
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._socket is None:
            await self.listen()
        assert self._socket is not None
        try:
            async with asyncio.TaskGroup() as self._group:
                log.info(
                    "metrics are served address=%s port=%d path=/metrics", self._host, self.port
                )
                await accept_all(
                    self._socket, self._admit, self._clock, server="prometheus", seats=None
                )
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()

    def _admit(self, sock: socket.socket) -> None:
        assert self._group is not None
        self._group.create_task(self._connect(sock))

    async def _connect(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(MAX_HEAD_BYTES, loop)
        try:
            await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader, self._connected, loop), sock
            )
        except OSError as error:
            log.info("scrape failed error=%s", type(error).__name__)
            sock.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._group is not None
        if self._scrapes >= MAX_CONNECTIONS:
            writer.close()
            return
        self._scrapes += 1
        self._group.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per connection."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                line, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
                for piece in await self._answer(line.decode("latin-1")):
                    writer.write(piece)
                await writer.drain()
        except (
            OSError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            log.info("scrape failed error=%s", type(error).__name__)
        finally:
            self._scrapes -= 1
            writer.close()

    async def _answer(self, line: str) -> list[bytes]:
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return [_head("405 Method Not Allowed", 0)]
        if path != "/metrics":
            return [_head("404 Not Found", 0)]
        if self._scrapes > MAX_SCRAPES:
            return [_head("503 Service Unavailable", 0)]
        body = await self.text()
        return [_head("200 OK", sum(map(len, body))), *(body if method == "GET" else ())]

    async def text(self) -> list[bytes]:
        """Everything, made with other work in between."""
        ratios = await asyncio.to_thread(self._metrics.disk_ratios)
        found = []
        for piece in texts(self._all(ratios)):
            found.append(piece)
            await asyncio.sleep(0)
        return found

    def _all(self, ratios: dict[str, float]) -> Iterator[Metric]:
        yield from self._metrics.pieces(ratios, self._clock.time_ms())
        yield from self._process.collect()


class _One:
    """A collector of one metric, which is all that ``generate_latest`` needs."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def texts(metrics: Iterable[Metric]) -> Iterator[bytes]:
    """The text form, a piece for each; the lines that describe a metric stand before its first
    piece only."""
    last = None
    for metric in metrics:
        text = generate_latest(_One(metric))
        if metric.name == last:
            text = b"".join(
                line for line in text.splitlines(keepends=True) if not line.startswith(b"#")
            )
        last = metric.name
        yield text


def _head(status: str, length: int) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE_PLAIN_0_0_4}\r\n"
        f"Content-Length: {length}\r\nConnection: close\r\n\r\n"
    ).encode()
