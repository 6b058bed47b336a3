"""What was written before the end of a connection arrives: answers of a broker that stops, above
all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from aiorocketmq import Admin
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.frames.frame import Frame, FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.transport.farewell import Farewell

from .cluster import HOST, PATIENCE_S, Cluster, create_topic, until

SMALL_BUFFER = 16 << 10
SENT = 60_000
STORED = 10_000
"""Messages that the broker has when it is told to stop. Their answers are more than a peer with
small buffers takes."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker()
        yield cluster


def a_send(topic: str) -> bytes:
    header = SendMessageRequestV2(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    )
    command = RemotingCommand(
        code=RequestCode.SEND_MESSAGE_V2, opaque=1, ext_fields=to_fields(header)
    )
    return encode_frame(SerializeType.JSON, encode_header(command, SerializeType.JSON), b"x" * 100)


def send_many(peer: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        peer.sendall(frame * SENT)


def read_all(peer: socket.socket) -> tuple[list[Frame], str]:
    """In small pieces, so that the broker is always ahead; and how it ended."""
    decoder, frames = FrameDecoder(), list[Frame]()
    try:
        while data := peer.recv(64):
            frames += decoder.feed(data)
    except ConnectionResetError:
        return frames, "reset"
    return frames, "goodbye"


async def stored(namesrv: str, topic: str) -> int:
    async with Admin(namesrv=namesrv) as admin:
        (queue,) = await admin.read_queues(topic)
        return await admin.max_offset(queue)


async def wait_until_stored(namesrv: str, topic: str) -> None:
    async def enough() -> bool:
        return await stored(namesrv, topic) >= STORED

    await until(enough, f"{STORED} messages are stored")


def test_what_was_stored_was_answered(cluster: Cluster, topic: str) -> None:
    asyncio.run(create_topic(cluster.namesrv, topic, 1))
    broker = cluster.brokers["broker-a"]
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        peer.settimeout(PATIENCE_S)
        peer.connect((HOST, broker.port))
        sender = threading.Thread(target=send_many, args=(peer, a_send(topic)))
        sender.start()
        asyncio.run(wait_until_stored(cluster.namesrv, topic))
        broker.process.send_signal(signal.SIGTERM)
        answers, end = read_all(peer)
        sender.join()
    assert broker.process.wait(PATIENCE_S) == 0
    assert {json.loads(header)["code"] for _, header, _ in answers} == {ResponseCode.SUCCESS}
    cluster.start_broker()
    assert (asyncio.run(stored(cluster.namesrv, topic)), end) == (len(answers), "goodbye")


def test_peers_that_do_not_end_are_not_waited_for(cluster: Cluster, topic: str) -> None:
    asyncio.run(create_topic(cluster.namesrv, topic, 1))
    address = (HOST, cluster.brokers["broker-a"].port)
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in range(20)
        ]
        for peer in peers:
            peer.sendall(a_send(topic))
            assert peer.recv(SMALL_BUFFER)
        cluster.stop_broker("broker-a")
        for peer in peers:
            assert peer.recv(1) == b"", "the end; had it been cut this would be an error"


class Leaver(asyncio.Protocol):
    """Says something and leaves, with bytes that it has not read."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = cast(asyncio.Transport, transport)
        peer.pause_reading()
        peer.write(self._said)
        Farewell(
            asyncio.get_running_loop(), peer, lambda _: self.ended.set_result(None), PATIENCE_S
        )


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = socket.create_connection(listening.getsockname())
        own, _ = listening.accept()
        with peer, own:
            for each in (peer, own):
                each.setblocking(False)
            yield peer, own


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
def test_nothing_is_lost_where_bytes_are_that_nobody_has_read(
    pair: tuple[socket.socket, socket.socket], loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    peer, own = pair
    said = bytes(1 << 20)
    peer.sendall(b"never read")

    async def leave_and_read() -> bytes:
        running = asyncio.get_running_loop()
        _, leaver = await running.connect_accepted_socket(lambda: Leaver(said), own)
        reader, writer = await asyncio.open_connection(sock=peer)
        read = await reader.read()
        writer.close()
        await leaver.ended
        return read

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(leave_and_read()) == said
