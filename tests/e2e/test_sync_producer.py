"""The blocking producer: plain messages are sent by the calling thread itself."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    Accumulate,
    ClientStateError,
    ConfigError,
    Message,
    MessageError,
    MessageQueue,
    SendFailed,
    SendResult,
    SendTimedOut,
)
from aiorocketmq.client.producer.queue_choice import choose_by_key
from aiorocketmq.remoting.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.responses import read_answer
from aiorocketmq.remoting.transport.blocking_connection import BlockingConnection

from .cluster import HOST, Cluster, DaemonProcess

HEADER = encode_header(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=7))


def answer(opaque: int = 7, flag: int = 1) -> bytes:
    return encode_frame(
        0,
        encode_header(RemotingCommand(code=0, flag=flag, opaque=opaque, remark=f"to {opaque}")),
        b"body",
    )


@contextmanager
def server(
    *pieces: bytes | None, asked_bytes: int = 1
) -> Iterator[tuple[BlockingConnection, threading.Event]]:
    """A connection to somebody who says this once he was asked (``None``: who then leaves), and an
    event to let him end."""
    end = threading.Event()

    def serve(listener: socket.socket) -> None:
        with listener, listener.accept()[0] as peer:
            left = asked_bytes
            while left > 0:
                left -= len(peer.recv(1 << 16)) or left
            for piece in pieces:
                if piece is None:
                    return
                peer.sendall(piece)
            end.wait(30)

    listener = socket.create_server((HOST, 0))
    thread = threading.Thread(target=serve, args=(listener,))
    thread.start()
    connection = BlockingConnection(HOST, listener.getsockname()[1], 10, max_frame_bytes=1 << 20)
    try:
        yield connection, end
    finally:
        connection.close()
        end.set()
        thread.join(30)


@pytest.mark.parametrize(
    "pieces",
    [
        (answer(),),
        (
            answer(6),
            answer(7, flag=0),
            answer(),
        ),  # too late for an earlier one; a request of theirs
        tuple(answer()[at : at + 1] for at in range(len(answer()))),
    ],
    ids=["whole", "others first", "in pieces"],
)
@pytest.mark.parametrize("sleeps", [0, 999], ids=["awake", "asleep"])  # more than there are pieces
def test_an_answer_is_found(pieces: tuple[bytes, ...], sleeps: int) -> None:
    with server(*pieces) as (connection, end):
        assert connection._spin is not None
        connection._spin.sleeps = sleeps
        response = connection.invoke(7, HEADER, b"", 10, read_answer)
        assert (response.code, response.remark) == (0, "to 7")
        assert sleeps == 0 or connection._spin.sleeps < sleeps
        assert connection.is_open()
        end.set()
        while connection.is_open():
            pass


@pytest.mark.parametrize(
    ("pieces", "timeout", "error"),
    [
        ((), 0.02, RequestTimeout),
        ((answer()[:9],), 0.02, RequestTimeout),
        ((None,), 10, ConnectionLostError),
        ((b"HTTP/1.1 400 Bad Request\r\n",), 10, ProtocolError),
    ],
)
def test_what_is_no_answer(
    pieces: tuple[bytes | None, ...], timeout: float, error: type[Exception]
) -> None:
    with server(*pieces) as (connection, _):
        with pytest.raises(error):
            connection.invoke(7, HEADER, b"", timeout, read_answer)
        assert connection._spin is not None
        assert error is not RequestTimeout or connection._spin._late or connection._spin.sleeps
        with pytest.raises(ConnectionLostError):
            connection.invoke(7, HEADER, b"", timeout, read_answer)  # it is closed


def test_a_request_that_the_system_takes_in_pieces() -> None:
    body = bytes(16 << 20)
    with server(answer(), asked_bytes=8 + len(HEADER) + len(body)) as (connection, _):
        assert connection.invoke(7, HEADER, body, 30, read_answer).remark == "to 7"


def test_what_is_closed_writes_to_nobody(tmp_path: Path) -> None:
    with server() as (connection, _), (tmp_path / "other").open("wb") as other:
        number = connection._socket.fileno()
        connection.close()
        os.dup2(other.fileno(), number)  # as the next file that is opened
        try:
            with pytest.raises(ConnectionLostError):
                connection.invoke(7, HEADER, b"", 10, read_answer)
            assert os.fstat(number).st_size == 0
        finally:
            os.close(number)


def test_nobody_there() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError, match=f"{port}: Connection refused"):
        BlockingConnection(HOST, port, 10, max_frame_bytes=1 << 20)


# --- against a real broker
# ------------------------------------------------------------------------------------------


def directly(producer: aiorocketmq.sync.Producer) -> int:
    """Connections of its own that are idle."""
    return sum(len(idle) for idle in producer._direct._idle.values())


def test_threads_send_side_by_side(shared: Cluster, topic: str) -> None:
    with (
        aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer,
        ThreadPoolExecutor(8) as pool,
    ):
        first = producer.send(Message(topic, b"x"))
        assert directly(producer) == 0  # the event loop has looked for the way
        results = [
            first,
            *pool.map(
                lambda number: producer.send(Message(topic, b"%d" % number, tags="a")), range(400)
            ),
        ]
        assert 1 <= directly(producer) <= 8
        assert len({result.msg_id for result in results}) == 401
        assert len({(result.queue, result.queue_offset) for result in results}) == 401
        queues = producer.queues(topic)
        assert {result.queue for result in results} == set(queues)
        keyed = {producer.send(Message(topic, b"x"), sharding_key="key").queue for _ in range(3)}
        assert keyed == {choose_by_key(queues, "key")}
    assert directly(producer) == 0
    with pytest.raises(ClientStateError):
        producer.send(Message(topic, b"x"))


def test_who_names_a_queue_sends_it_there_himself(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        chosen_by.append((threading.get_ident(), message.body))
        return queues[-1]

    chosen_by: list[tuple[int, bytes]] = []
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        queues = producer.queues(topic)
        monkeypatch.setattr(producer._client, "send", None)  # the event loop sends nothing
        assert producer.send(Message(topic, b"x"), queue=queues[1]).queue == queues[1]
        assert producer.send(Message(topic, b"x"), selector=choose).queue == queues[-1]
        assert chosen_by == [(threading.get_ident(), b"x")]
        with pytest.raises(ConfigError, match="chooses one of the queues"):
            producer.send(Message(topic, b"x"), selector=lambda *_: None)  # type: ignore[arg-type]
        monkeypatch.undo()
        for wrong in (
            {"queue": queues[0], "sharding_key": 1},
            {"selector": choose, "sharding_key": 1},
        ):
            with pytest.raises(ConfigError, match="not several"):
                producer.send(Message(topic, b"x"), **wrong)  # type: ignore[arg-type]
        with pytest.raises(MessageError, match="the queue's is Other"):
            producer.send(Message(topic, b"x"), queue=queues[0]._replace(topic="Other"))
        with pytest.raises(MessageError, match="the queue's is Other"):
            producer.send(Message(topic, b"x"), selector=lambda q, _: q[0]._replace(topic="Other"))
    assert len(chosen_by) == 1


def test_connections_that_nobody_needs_are_closed(shared: Cluster, topic: str) -> None:
    now = [0.0]
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        direct = producer._direct
        direct._monotonic = lambda: now[0]
        producer.send(Message(topic, b"x"))

        def send() -> BlockingConnection:
            assert producer.send(Message(topic, b"x"))
            return next(iter(direct._idle.values()))[-1]

        first = send()
        for now[0] in (0.9, 10.0, 60.0):  # the last two times it is looked at
            assert send() is first
        first._socket.shutdown(socket.SHUT_RD)
        now[0] = 62.0
        second = send()
        assert second is not first
        now[0] = 130.0
        third = send()
        assert third is not second
        address = next(iter(direct._idle))
        other = direct._instance.remoting.connect_blocking(address, 10)
        other.used_at = now[0]
        direct._idle[address].append(other)  # another thread's
        for now[0] in (170.0, 185.0):
            assert send() is other
            assert directly(producer) == 2
        now[0] = 195.0
        assert send() is other
        assert directly(producer) == 1
        now[0] = 260.0
        assert send() not in (third, other)
        assert directly(producer) == 1
    assert [each._socket.fileno() for each in (first, second, third, other)] == [-1] * 4


def test_what_is_in_use_when_the_producer_stops_is_closed_after_its_answer(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invoke_late(self: BlockingConnection, *args: Any) -> Any:
        answer = invoke(self, *args)
        if len(used) == 1:
            producer.stop()
        used.append(self)
        return answer

    invoke, used = BlockingConnection.invoke, list[BlockingConnection]()
    monkeypatch.setattr(BlockingConnection, "invoke", invoke_late)
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        for _ in range(3):
            assert producer.send(Message(topic, b"x"))
        assert used[0] is used[1]
        assert used[0]._socket.fileno() == -1
        assert directly(producer) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda namesrv: aiorocketmq.sync.Producer(
            "p", namesrv=namesrv, accumulate=Accumulate(linger=0)
        ),
        lambda namesrv: aiorocketmq.sync.Producer("p", namesrv=namesrv, trace=True),
        lambda namesrv: aiorocketmq.sync.Producer("p", namesrv=namesrv, latency_fault=True),
        lambda namesrv: aiorocketmq.sync.Producer("p", namesrv=namesrv, namespace="tenant"),
        lambda namesrv: aiorocketmq.sync.Producer("p", namesrv=namesrv, compress_over=1),
    ],
    ids=["accumulate", "trace", "latency_fault", "namespace", "compress"],
)
def test_whoever_wants_more_is_served_by_the_event_loop(
    shared: Cluster, topic: str, make: Callable[[str], aiorocketmq.sync.Producer]
) -> None:
    with make(shared.namesrv) as producer:
        results = [producer.send(Message(topic, b"x")) for _ in range(3)]
        assert len({result.msg_id for result in results}) == 3
        assert directly(producer) == 0


def test_a_broker_that_comes_back(cluster: Cluster) -> None:
    def send() -> SendResult | None:
        try:
            return producer.send(Message("TopicTest", b"x"), timeout=1.0)
        except SendFailed:
            return None

    cluster.start_broker()
    with aiorocketmq.sync.Producer("p", namesrv=cluster.namesrv) as producer:
        assert send()
        assert send()
        assert directly(producer) == 1
        cluster.kill_broker("broker-a")
        assert send() is None
        cluster.start_broker()
        while send() is None:
            pass
        assert send()


@contextmanager
def stopped(daemon: DaemonProcess) -> Iterator[None]:
    """It does nothing meanwhile."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_a_broker_that_hangs_costs_its_timeout_and_not_more(cluster: Cluster) -> None:
    broker = cluster.start_broker()
    with aiorocketmq.sync.Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send(Message("TopicTest", b"x"))
        producer.send(Message("TopicTest", b"x"))
        with stopped(broker), pytest.raises(SendTimedOut) as failure:
            producer.send(Message("TopicTest", b"x"), timeout=0.2)
        assert 0.2 <= failure.value.attempts[0].seconds < 3
        assert directly(producer) == 0
        assert producer.send(Message("TopicTest", b"x"))
