"""The blocking producer: plain messages are sent by the calling thread itself."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from aiorocketmq.remoting.transport.blocking_connection import BlockingCalls

from .cluster import Cluster, DaemonProcess


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

        def send() -> BlockingCalls:
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
    def invoke_late(self: BlockingCalls, *args: Any) -> Any:
        answer = invoke(self, *args)
        if len(used) == 1:
            producer.stop()
        used.append(self)
        return answer

    invoke, used = BlockingCalls.invoke, list[BlockingCalls]()
    monkeypatch.setattr(BlockingCalls, "invoke", invoke_late)
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
