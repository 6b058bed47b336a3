"""What replication is measured against: the bytes of files over a loopback connection, written 32
KiB at a time.

``python -m benchmarks.loopback_copy send PORT FILE...`` waits on the port and sends the files;
``... receive PORT TO`` writes them to a file and prints how many bytes that were; both print the
CPU seconds that it took, without those of starting. The same event loop and the same reads of
mapped files as in the broker.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
import time
from pathlib import Path
from typing import cast

from aiorocketmq.daemon.event_loop import new_event_loop

STEP = 32 << 10
HIGH = 1 << 20


class Sender(asyncio.Protocol):
    """Writes whenever there is room."""

    def __init__(self, paths: list[Path], done: asyncio.Future[None]) -> None:
        self._parts = ((path, at) for path in paths for at in range(0, path.stat().st_size, STEP))
        self._maps: dict[Path, mmap.mmap] = {}
        self._done = done
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH)
        self._write()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write()

    def _write(self) -> None:
        if self._paused:
            return
        part = next(self._parts, None)
        if part is None:
            self._transport.close()
            return
        path, at = part
        if path not in self._maps:
            with path.open("rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._transport.write(self._maps[path][at : at + STEP])
        asyncio.get_running_loop().call_soon(self._write)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done.set_result(None)


class Receiver(asyncio.Protocol):
    """Writes what comes."""

    def __init__(self, file: int, done: asyncio.Future[int]) -> None:
        self._file = file
        self._total = 0
        self._done = done

    def data_received(self, data: bytes) -> None:
        self._total += os.write(self._file, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done.set_result(self._total)


async def send(port: int, paths: list[Path]) -> None:
    """Until all is sent."""
    started = time.process_time()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    server = await asyncio.get_running_loop().create_server(
        lambda: Sender(paths, done), "127.0.0.1", port
    )
    async with server:
        await done
    print(time.process_time() - started, flush=True)


async def receive(port: int, file: int) -> None:
    """Until the sender ends the connection."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    while True:
        started = time.process_time()
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: Receiver(file, done), "127.0.0.1", port
            )
            break
        except OSError:
            await asyncio.sleep(0.02)
    print(await done)
    os.fdatasync(file)
    print(time.process_time() - started, flush=True)


def main() -> None:
    port, paths = int(sys.argv[2]), [Path(name) for name in sys.argv[3:]]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if sys.argv[1] == "send":
            runner.run(send(port, paths))
            return
        file = os.open(paths[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            runner.run(receive(port, file))
        finally:
            os.close(file)
            paths[0].unlink()


if __name__ == "__main__":
    main()
