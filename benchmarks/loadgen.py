"""A load generator: real frames over real sockets, as fast as Python can, in a process of its own.

``python -m benchmarks.loadgen PORT SHAPE CONNECTIONS IN_FLIGHT SECONDS`` prints one JSON line. Every connection keeps
``IN_FLIGHT`` requests on their way. Answers are counted and checked (code 0, and for pulls the length of the body) without
being decoded, so that the generator is not what is measured; the server's CPU time is taken by whoever runs this
(``cpu.py``), from the operating system.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.frame import encode_frame
from aiorocketmq.remoting.protocol.message import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.protocol.wire import Record, to_fields

TOPIC = "Benchmark"
QUEUES = 4
BODY = b"x" * 128
BATCH = 32
PULL = 32
_ANSWER = b'"serializeTypeCurrentRPC"'
_GOOD = b'{"code":0,'


def request(code: RequestCode, header: Record, body: bytes, opaque: int) -> bytes:
    fields = dict(sorted(to_fields(header).items()))
    command = RemotingCommand(code=code, opaque=opaque, ext_fields=fields)
    return encode_frame(0, encode_header(command), body)


def properties(number: int) -> str:
    return f"UNIQ_KEY\x017F000001000000000000000000{number:06X}\x02WAIT\x01true\x02TAGS\x01TagA"


def send_header(number: int, text: str, *, batch: bool = False) -> SendMessageRequestV2:
    return SendMessageRequestV2(
        producer_group="Benchmark",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=number % QUEUES,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=text,
        reconsume_times=0,
        batch=batch,
    )


def send_frames() -> list[bytes]:
    return [request(RequestCode.SEND_MESSAGE_V2, send_header(n, properties(n)), BODY, n) for n in range(256)]


def batch_frames() -> list[bytes]:
    frames = []
    for n in range(64):
        items = [BatchItem(flag=0, body=BODY, properties=properties(n * BATCH + i).encode()) for i in range(BATCH)]
        header = send_header(n, "WAIT\x01true", batch=True)
        frames.append(request(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items), n))
    return frames


def pull_frames(topic: str = TOPIC) -> list[bytes]:
    """Walks the first 8192 messages of every queue."""
    frames = []
    for n in range(1024):
        header = PullMessageRequest(
            consumer_group="Benchmark",
            topic=topic,
            queue_id=n % QUEUES,
            queue_offset=n // QUEUES * PULL,
            max_msg_nums=PULL,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        frames.append(request(RequestCode.PULL_MESSAGE, header, b"", n))
    return frames


SHAPES = {"send": (send_frames, 1), "batch": (batch_frames, BATCH), "pull": (pull_frames, PULL)}
"""Name to frames and messages per request."""


class Client:
    """One connection."""

    def __init__(self, port: int, frames: list[bytes], start: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self._frames = frames
        self._next = start
        self._tail = b""
        self._unsent = b""
        self.answers = 0
        self.good = 0

    def ask(self, count: int) -> None:
        """Send the next ``count`` requests."""
        frames, total = self._frames, len(self._frames)
        if count == 1:
            data = frames[self._next % total]
        else:
            data = b"".join([frames[(self._next + i) % total] for i in range(count)])
        self._next += count
        self._write(self._unsent + data)

    def _write(self, data: bytes) -> None:
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        self._unsent = data[sent:]

    def read(self) -> int:
        """Take what has arrived; the number of answers in it."""
        if self._unsent:
            self._write(self._unsent)
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        data = self._tail + data
        answers, good = data.count(_ANSWER), data.count(_GOOD)
        keep = max(len(_ANSWER), len(_GOOD)) - 1
        self._tail = data[-keep:]
        seen = self._tail.count(_ANSWER), self._tail.count(_GOOD)
        self.answers += answers - seen[0]
        self.good += good - seen[1]
        return answers - seen[0]


def run(port: int, shape: str, connections: int, in_flight: int, seconds: float) -> dict[str, Any]:
    make_frames, per_request = SHAPES[shape]
    frames = make_frames()
    clients = {}
    poll = select.epoll()
    for n in range(connections):
        client = Client(port, frames, n * 7)
        clients[client.sock.fileno()] = client
        poll.register(client.sock.fileno(), select.EPOLLIN)
    for client in clients.values():
        client.ask(in_flight)
    print("started", flush=True)
    start = time.monotonic()
    end = start + seconds
    while time.monotonic() < end:
        for fileno, _ in poll.poll(1.0):
            client = clients[fileno]
            if answers := client.read():
                client.ask(answers)
    elapsed = time.monotonic() - start
    requests = sum(c.answers for c in clients.values())
    good = sum(c.good for c in clients.values())
    return {"requests": requests, "messages": requests * per_request, "errors": requests - good, "seconds": elapsed}


def main() -> None:
    port, shape, connections, in_flight, seconds = sys.argv[1:6]
    print(json.dumps(run(int(port), shape, int(connections), int(in_flight), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
