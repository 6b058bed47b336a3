"""Brokers that keep the rules of sequences (``remoting/protocol/message/send_sequence.py``), and a
network to them that loses, delays and repeats what a test says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Iterator
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

from aiorocketmq import Producer
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.remoting.errors import ConnectError, ConnectionLostError, RequestTimeout
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2, SequenceHelloRequest
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import decode_batch
from aiorocketmq.remoting.responses import Response

from ...sim import ManualClock

TOPIC = "T"
ADDRESSES = {"a": "h:10911", "b": "h:20911"}
BACK_OFF_S = 0.1
AHEAD_MS = 3_600_000
"""The brokers' clocks are, of that of the client."""
QUEUES = [MessageQueue(TOPIC, name, number) for name in ADDRESSES for number in range(2)]

R = TypeVar("R")


class Fate(Enum):
    """What becomes of one request."""

    FINE = auto()
    NO_CONNECTION = auto()
    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    REQUEST_TIMED_OUT = auto()
    ANSWER_TIMED_OUT = auto()
    LATE = auto()
    """The connection is lost, and the request comes to the broker after ``Network.later`` more."""
    BUSY = auto()
    """2: nothing is stored."""
    DEPOSED = auto()
    """14: nothing is stored."""
    COMMITTED_LATER = auto()
    """14, but it is stored all the same."""
    RESTARTED = auto()
    """The broker was, and knows what it knew."""
    FORGOTTEN = auto()
    """It knows nothing of what was before."""


LOST = frozenset(
    {Fate.REQUEST_LOST, Fate.ANSWER_LOST, Fate.REQUEST_TIMED_OUT, Fate.ANSWER_TIMED_OUT, Fate.LATE}
)
HEARD = LOST - {Fate.REQUEST_LOST, Fate.REQUEST_TIMED_OUT, Fate.LATE}
TIMED_OUT = frozenset({Fate.REQUEST_TIMED_OUT, Fate.ANSWER_TIMED_OUT})


class _Known(NamedTuple):
    epoch: int
    next: int


class Broker:
    """One broker and its queues: bodies, in order."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.queues: defaultdict[int, list[bytes]] = defaultdict(list)
        self.known: dict[tuple[str, int], _Known] = {}
        self._fences: dict[str, int] = {}
        self._ready = False
        self._forgot_ms = 0
        self.java = False
        """It knows nothing of sequences."""
        self.full = False
        self.repeats_over_epochs = True
        """A higher epoch with a number that is known already: a repeat, or new."""
        self.sent: list[SendSequence] = []
        self.greeted: list[SequenceHelloRequest] = []

    def restart(self) -> None:
        self._ready = self.java

    def forget(self) -> None:
        self.restart()
        self._clock.advance(0.001)
        self.known.clear()
        self._fences.clear()
        self._forgot_ms = self._clock.time_ms() + AHEAD_MS

    def hello(self, request: SequenceHelloRequest) -> tuple[int, dict[str, str]]:
        self.greeted.append(request)
        if self.java:
            return ResponseCode.REQUEST_CODE_NOT_SUPPORTED, {}
        self._ready = True
        before = self._fences.get(request.producer_id, 0)
        self._fences[request.producer_id] = max(before, request.epoch)
        return 0, {"expiresMs": "60000", "nowMs": str(self._clock.time_ms() + AHEAD_MS)}

    def send(self, header: SendMessageRequestV2, body: bytes) -> tuple[int, dict[str, str]]:
        assert header.sys_flag & MessageSysFlag.SEQUENCED
        assert header.queue_id >= 0
        bodies = [item.body for item in decode_batch(body)] if header.batch else [body]
        text = decode_properties(header.properties or "")["SEND_SEQUENCE"]
        sequence = SendSequence.parse(text)
        queue = self.queues[header.queue_id]
        if self.java:
            queue += bodies
            return 0, self._stored(header.queue_id, len(queue) - len(bodies))
        self.sent.append(sequence)
        code, skipped = self._check(sequence, header.queue_id, len(bodies))
        if code:
            return code, {}
        new = bodies[skipped:]
        queue += new
        if new:
            return 0, self._stored(header.queue_id, len(queue) - len(new), "new")
        return 0, self._stored(header.queue_id, -1, "repeated")

    def _check(self, sequence: SendSequence, queue_id: int, count: int) -> tuple[int, int]:
        """The code, and how many messages are known."""
        if not self._ready:
            return ResponseCode.SEQUENCES_NOT_READY, 0
        key = sequence.producer_id, queue_id
        known = self.known.get(key)
        if sequence.epoch < self._fences.get(sequence.producer_id, 0):
            return ResponseCode.SEQUENCE_FENCED, 0
        if known is None:
            leaves_out = sequence.number and not sequence.epoch
            if leaves_out or sequence.begun_ms < self._forgot_ms:
                return ResponseCode.SEQUENCE_UNKNOWN, 0
            if self.full:
                return ResponseCode.SEQUENCES_FULL, 0
            known = _Known(sequence.epoch, sequence.number)
        if sequence.epoch < known.epoch:
            return ResponseCode.SEQUENCE_FENCED, 0
        if sequence.epoch == known.epoch and sequence.number > known.next:
            return ResponseCode.SEQUENCE_GAP, 0
        skipped = min(count, max(0, known.next - sequence.number))
        if sequence.epoch > known.epoch and not self.repeats_over_epochs:
            skipped = 0
        end = max(known.next, sequence.number + count) if skipped else sequence.number + count
        self.known[key] = _Known(sequence.epoch, end)
        return 0, skipped

    @staticmethod
    def _stored(queue_id: int, offset: int, sequence: str | None = None) -> dict[str, str]:
        fields = {
            "msgId": "OFFSET" if offset >= 0 else "",
            "queueId": str(queue_id),
            "queueOffset": str(offset),
        }
        return fields if sequence is None else {**fields, "sequence": sequence}


class Network:
    """As a RemotingClient; ``fates`` are those of the requests to come, after which all are
    fine."""

    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        self.clock = ManualClock()
        self.fates: Iterator[Fate] = iter(fates)
        self.brokers = {address: Broker(self.clock) for address in ADDRESSES.values()}
        self.down: set[str] = set()
        """Addresses where nothing listens."""
        self.hangs: set[str] = set()
        """Addresses that never answer."""
        self.asked: list[tuple[str, RequestCode]] = []
        self.under_way: list[tuple[str, int]] = []
        self.instance = ClientInstance(namesrv="ns:1", clock=self.clock)
        self.instance.remoting = self.instance.name_servers._remoting = self  # type: ignore[assignment]
        self.instance.routes._store(topic_route(TOPIC, route()))
        self.later = 3
        self._not_before: dict[str, float] = {}
        self._late: list[tuple[int, str, SendMessageRequestV2, bytes]] = []

    def producer(self, **options: Any) -> Producer:
        producer = Producer("g", instance=self.instance, idempotent=True, **options)
        producer._running = True
        return producer

    def stored(self) -> dict[MessageQueue, list[bytes]]:
        return {
            queue: self.brokers[ADDRESSES[queue.broker_name]].queues[queue.queue_id]
            for queue in QUEUES
        }

    def play(self, scene: Coroutine[Any, Any, R]) -> R:
        """Whoever sleeps is woken when there is nothing else to do."""

        async def main() -> R:
            task = asyncio.ensure_future(scene)
            while not task.done():
                for _ in range(30):
                    await asyncio.sleep(0)
                if not task.done() and (due := self.clock.next_due) is not None:
                    self.clock.advance(max(0.001, due - self.clock.monotonic()))
            return await task

        return asyncio.run(main())

    # --- as a RemotingClient
    # ----------------------------------------------------------------------------------------------

    async def invoke(
        self,
        address: str,
        code: RequestCode,
        header: Any,
        body: bytes = b"",
        *,
        timeout: float,
        ext_fields: object = None,
    ) -> Response:
        assert timeout > 0
        if code is RequestCode.GET_ROUTEINFO_BY_TOPIC:
            raise ConnectError("the name server is away")
        self.asked.append((address, code))
        fate = next(self.fates, Fate.FINE)
        if address in self.down or fate is Fate.NO_CONNECTION:
            self._not_before[address] = self.clock.monotonic() + BACK_OFF_S
            raise ConnectError("refused")
        where = address, header.queue_id if code is not RequestCode.SEND_SEQUENCE_HELLO else -1
        assert where not in self.under_way or where[1] < 0, "one at a time in each queue"
        self.under_way.append(where)
        try:
            await asyncio.sleep(0)
            if address in self.hangs or fate in TIMED_OUT:
                if fate in HEARD:
                    self._served(address, code, header, body)
                await self.clock.sleep(timeout)
                raise RequestTimeout("no answer")
            return self._answer(fate, address, code, header, body)
        finally:
            self.under_way.remove(where)
            self.deliver_late()

    def _answer(
        self, fate: Fate, address: str, code: RequestCode, header: Any, body: bytes
    ) -> Response:
        broker, is_send = self.brokers[address], code is not RequestCode.SEND_SEQUENCE_HELLO
        if fate is Fate.RESTARTED:
            broker.restart()
        elif fate is Fate.FORGOTTEN:
            broker.forget()
        elif fate is Fate.LATE and is_send:
            self._late.append((len(self.asked) + self.later, address, header, body))
        elif fate is Fate.BUSY:
            return _response(code, ResponseCode.SYSTEM_BUSY, {})
        elif fate is Fate.DEPOSED:
            return _response(code, ResponseCode.SERVICE_NOT_AVAILABLE, {})
        elif fate in HEARD or fate is Fate.COMMITTED_LATER:
            self._served(address, code, header, body)
            if fate is Fate.COMMITTED_LATER:
                return _response(code, ResponseCode.SERVICE_NOT_AVAILABLE, {})
        if fate in LOST:
            raise ConnectionLostError("lost")
        return _response(code, *self._served(address, code, header, body))

    def _served(
        self, address: str, code: RequestCode, header: Any, body: bytes
    ) -> tuple[int, dict[str, str]]:
        broker = self.brokers[address]
        if code is RequestCode.SEND_SEQUENCE_HELLO:
            return broker.hello(header)
        return broker.send(header, body)

    def deliver_late(self, *, all_of_them: bool = False) -> None:
        late, self._late = self._late, []
        for each in late:
            when, address, header, body = each
            if all_of_them or when <= len(self.asked):
                self.brokers[address].send(header, body)
            else:
                self._late.append(each)

    def back_off(self, address: str) -> float:
        return max(0.0, self._not_before.get(address, 0.0) - self.clock.monotonic())

    def connected_to(self, _address: str) -> None:
        return None


def route() -> TopicRouteData:
    """Two queues on each broker."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6)
            for name in ADDRESSES
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: address})
            for name, address in ADDRESSES.items()
        ],
    )


def _response(code: RequestCode, answer: int, fields: dict[str, str]) -> Response:
    command = RemotingCommand(code=answer, opaque=1, flag=1, remark="why", ext_fields=fields)
    return Response.of(command, b"", code)
