"""A relay in front of a broker that loses what a test wants: requests, answers, whole
connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from asyncio import StreamReader, StreamWriter
from enum import Enum, auto
from typing import Any, Self

from aiorocketmq.remoting.protocol.codes import RequestCode

RELAY = "127.0.0.2"
"""Where it listens, at the broker's port: what the broker registers (``brokerIP1``)."""
SENDS = frozenset({RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
LATE_S = 0.2


class Loss(Enum):
    """What becomes of a send."""

    NOTHING = auto()
    REQUEST = auto()
    """It does not reach the broker, and the connection ends."""
    ANSWER = auto()
    """It does, and the connection ends."""
    SILENT_ANSWER = auto()
    """It does; the connection stays."""
    LATE = auto()
    """The connection ends, and it reaches the broker later."""


class LosingRelay:
    """Each send has one of the ``losses``. Use as ``async with``."""

    def __init__(self, host: str, port: int, losses: list[Loss], rng: random.Random) -> None:
        """``host``, ``port``: where the broker itself listens."""
        self._broker = host, port
        self._rng = rng
        self.losses = losses
        self.counts: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, RELAY, self._broker[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._own(self._serve(reader, writer))

    def _own(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._broker)
        except OSError:
            writer.transport.abort()
            return
        lost: dict[int, Loss] = {}
        both = asyncio.gather(
            self._requests(reader, back, lost), self._answers(there, writer, lost)
        )
        with contextlib.suppress(OSError, EOFError):
            try:
                await both
            finally:
                both.cancel()
                writer.transport.abort()
                back.transport.abort()

    async def _requests(
        self, reader: StreamReader, back: StreamWriter, lost: dict[int, Loss]
    ) -> None:
        while True:
            frame, header = await _frame(reader)
            if header["code"] in SENDS:
                loss = self._rng.choice(self.losses)
                self.counts[loss] += 1
                if loss is Loss.LATE:
                    self._own(self._late(frame))
                if loss in {Loss.LATE, Loss.REQUEST}:
                    raise EOFError
                lost[header["opaque"]] = loss
            back.write(frame)

    async def _answers(
        self, there: StreamReader, writer: StreamWriter, lost: dict[int, Loss]
    ) -> None:
        while True:
            frame, header = await _frame(there)
            loss = lost.pop(header["opaque"], Loss.NOTHING)
            if loss is Loss.ANSWER:
                raise EOFError
            if loss is Loss.NOTHING:
                writer.write(frame)

    async def _late(self, frame: bytes) -> None:
        await asyncio.sleep(LATE_S)
        with contextlib.suppress(OSError, EOFError):
            there, back = await asyncio.open_connection(*self._broker)
            try:
                back.write(frame)
                await _frame(there)
            finally:
                back.transport.abort()


async def _frame(reader: StreamReader) -> tuple[bytes, dict[str, Any]]:
    """The next one, and its header, which is JSON. Raises ``EOFError``."""
    length = await reader.readexactly(4)
    rest = await reader.readexactly(int.from_bytes(length))
    header_end = 4 + int.from_bytes(rest[1:4])
    header: dict[str, Any] = json.loads(rest[4:header_end])
    return length + rest, header
