"""A cluster without processes and sockets: queues in memory, brokers that answer pulls in frames,
faults on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aiorocketmq.remoting.errors import BrokerError, ConnectError, ConnectionLostError, SystemBusy
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.frames.frame import Frame, FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.spark_connector.access.broker_access import Asked, MaxOffset
from aiorocketmq.spark_connector.access.frame_buffer import PlacedFrame, stretch_of
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.access.stored_times import Stored as StoredAt

from .stored_records import Stored, properties

SCAN = 50
"""Entries that a broker looks at for one pull with a filter."""


@dataclass
class SimQueue:
    """Messages ``first`` to before ``end``, all but ``holes``."""

    first: int = 0
    end: int = 0
    holes: frozenset[int] = frozenset()
    lag: int = 0
    """How many of the newest the slave does not have."""
    tag_every: int = 1
    """Messages whose offset is a multiple of this have the tag ``a``, others ``b``."""
    group_offset: int | None = None
    stored_from_ms: int = 0
    """When message 0 was stored; the others one by one, a millisecond apart ..."""
    stored_ms: list[int] = field(default_factory=list)
    """... unless it is said here."""
    batch: int = 1
    """So many messages side by side are one record, as in a BatchCQ topic of RocketMQ 5: whoever
    asks for one of them gets all."""
    damaged: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By broker id: what that replica leaves out of its answers."""

    def time_of(self, offset: int) -> int:
        return self.stored_ms[offset] if self.stored_ms else self.stored_from_ms + offset

    def tag(self, offset: int) -> str:
        return "a" if offset % self.tag_every == 0 else "b"


class SimClock:
    """Time passes when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 10_000.0

    def now(self) -> float:
        return self.time

    def time_ms(self) -> int:
        return round(self.time * 1000)

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class SimCluster:
    """Brokers are ``a``, ``b``, ...; a replica has the address ``a:<id>``. Plays ``BrokerAccess``
    and ``fetch.Cluster``."""

    queues_: dict[MessageQueue, SimQueue] = field(default_factory=dict)
    slaves: frozenset[str] = frozenset()
    unregistered: set[str] = field(default_factory=set)
    hidden: set[MessageQueue] = field(default_factory=set)
    """Queues that no route has, though their broker does."""
    down: set[str] = field(default_factory=set)
    """Addresses that cannot be connected to."""
    in_order: bool = False
    answer_limit: int = 32
    break_after: int = 1_000_000_000
    """So many answers until all connections break, once."""
    suggests: int = 0
    refuse: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Answers, by the number of the pull, that are errors."""
    pulls: list[tuple[str, int, int]] = field(default_factory=list)
    """Address, offset and count of each."""
    connects: list[str] = field(default_factory=list)
    wires: list[SimWire] = field(default_factory=list)
    most_under_way: int = 0
    committed: Offsets = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    """Where the group was made known."""
    group_refused: bool = False
    asked: int = 0
    name_server_down: bool = False
    name_server_busy: bool = False
    log_begins: dict[str, int | None] = field(default_factory=dict)
    """When the oldest message was stored that a broker keeps, of whatever topic."""
    told: dict[MessageQueue, str] = field(default_factory=dict)
    """Queues that somebody else tells of."""

    def add(self, queue: MessageQueue, first: int, end: int, **more: object) -> SimQueue:
        self.queues_[queue] = made = SimQueue(first, end, **more)  # type: ignore[arg-type]
        return made

    # --- BrokerAccess
    # ----------------------------------------------------------------------------------------------

    def _known(self) -> Iterator[MessageQueue]:
        if self.name_server_down:
            raise ConnectError("no name server")
        if self.name_server_busy:
            raise SystemBusy(2, "flow control")
        return (
            queue
            for queue in self.queues_
            if queue.broker_name not in self.unregistered and queue not in self.hidden
        )

    def topics(self, pattern: str) -> list[str]:
        return sorted(
            {queue.topic for queue in self._known() if re.fullmatch(pattern, queue.topic)}
        )

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[MessageQueue, ...]]:
        known = list(self._known())
        return {topic: tuple(sorted(q for q in known if q.topic == topic)) for topic in topics}

    def registered_brokers(self) -> set[str]:
        if self.name_server_down:
            raise ConnectError("no name server")
        return {queue.broker_name for queue in self.queues_} - self.unregistered

    def unrouted(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        asked = self.max_offsets(queues)
        return {*asked.failed, *(queue for queue, each in asked.found.items() if each.offset)}

    def told_topics(self, pattern: str) -> list[str]:
        return sorted({queue.topic for queue in self.told if re.fullmatch(pattern, queue.topic)})

    def told_queues(self, topics: Iterable[str]) -> dict[MessageQueue, str]:
        wanted = set(topics)
        return {queue: by for queue, by in self.told.items() if queue.topic in wanted}

    def _at(self, queue: MessageQueue) -> MaxOffset:
        self.asked += 1
        here = self.queues_.get(queue, SimQueue())
        if f"{queue.broker_name}:0" not in self.down:
            return MaxOffset(here.end, True)
        if queue.broker_name in self.slaves:
            return MaxOffset(here.end - here.lag, False)
        raise ConnectError(f"{queue.broker_name} is down")

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Asked:
        asked = Asked({}, {})
        for queue in queues:
            try:
                asked.found[queue] = self._at(queue)
            except ConnectError as error:
                asked.failed[queue] = error
        return asked

    def latest(self, queues: Iterable[MessageQueue]) -> Offsets:
        return {queue: self._at(queue).offset for queue in queues}

    def latest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets:
        ends = {queue: self._at(queue) for queue in queues}
        if not all(each.from_master for each in ends.values()):
            raise ConnectError("the master does not answer")
        return {queue: each.offset for queue, each in ends.items()}

    def earliest(self, queues: Iterable[MessageQueue]) -> Offsets:
        return {queue: self.queues_[queue].first for queue in queues}

    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets:
        return {queue: self.queues_[queue].first for queue in queues if self._at(queue).from_master}

    def group_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return {queue: self.queues_[queue].group_offset for queue in queues}

    def offsets_for_times(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]:
        found: dict[MessageQueue, int | None] = {}
        for queue, time in times_ms.items():
            here = self.queues_[queue]
            end = self._at(queue).offset
            found[queue] = next(
                (each for each in range(here.first, end) if here.time_of(each) >= time), None
            )
        return found

    def stored_at(
        self, offsets: Mapping[MessageQueue, int]
    ) -> Mapping[MessageQueue, StoredAt | None]:
        found: dict[MessageQueue, StoredAt | None] = {}
        for queue, offset in offsets.items():
            end, here = self._at(queue).offset, self.queues_[queue]
            is_there = here.first <= offset < end
            found[queue] = StoredAt(offset, here.time_of(offset)) if is_there else None
        return found

    def are_gone(self, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, bool]:
        return {queue: offset < self.queues_[queue].first for queue, offset in offsets.items()}

    def log_begins_at(self, queue: MessageQueue) -> int | None:
        return self.log_begins.get(queue.broker_name, 0)

    def register_group(self, broker_name: str) -> None:
        if f"{broker_name}:0" in self.down:
            raise ConnectError(f"{broker_name} is down")
        if self.group_refused:
            raise BrokerError(1, "you are no administrator")
        self.registered.append(broker_name)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        if broken := [queue for queue in offsets if f"{queue.broker_name}:0" in self.down]:
            raise BrokerError(1, f"{broken} is down")
        self.committed.update(offsets)

    # --- fetch.Cluster
    # ----------------------------------------------------------------------------------------------

    def replicas(self, queue: MessageQueue) -> Mapping[int, str]:
        if self.name_server_down:
            raise ConnectError("no name server")
        ids = (0, 1) if queue.broker_name in self.slaves else (0,)
        return {number: f"{queue.broker_name}:{number}" for number in ids}

    def connect(self, address: str) -> SimWire:
        self.connects.append(address)
        if address in self.down or address.startswith("elsewhere"):
            raise ConnectError(f"{address} is down")
        self.wires.append(SimWire(self, address))
        return self.wires[-1]

    def give_back(self, wire: object) -> None:
        assert isinstance(wire, SimWire)
        assert not wire.frames, "answers are under way on a connection that was given back"

    def answer(self, address: str, command: RemotingCommand) -> Frame:
        fields = command.ext_fields or {}
        broker_name, _, broker_id = address.partition(":")
        here = self.queues_[MessageQueue(fields["topic"], broker_name, int(fields["queueId"]))]
        offset, count = (
            int(fields["queueOffset"]),
            min(int(fields["maxMsgNums"]), self.answer_limit),
        )
        self.pulls.append((address, offset, count))
        end = here.end - (here.lag if broker_id != "0" else 0)
        code: int = ResponseCode.SUCCESS
        next_offset, damaged = offset, 0
        found: list[bytes] = []
        if len(self.pulls) in self.refuse:
            code, remark = self.refuse[len(self.pulls)]
            return self._frame(
                command,
                RemotingCommand(code=code, flag=1, opaque=command.opaque, remark=remark),
                b"",
            )
        if offset < here.first or offset > end:
            code = (
                ResponseCode.PULL_OFFSET_MOVED
                if broker_id == "0"
                else ResponseCode.PULL_RETRY_IMMEDIATELY
            )
        elif offset == end:
            code = ResponseCode.PULL_NOT_FOUND
        elif here.batch > 1:
            next_offset -= next_offset % here.batch
            while next_offset < end and next_offset < offset + count:
                found.append(
                    self.batch(fields["topic"], int(fields["queueId"]), next_offset, here.batch)
                )
                next_offset += here.batch
        else:
            while next_offset < end and len(found) < count and next_offset - offset < SCAN:
                wanted = fields["subscription"] in ("*", here.tag(next_offset))
                if wanted and next_offset in here.damaged.get(broker_id, ()):
                    damaged += 1
                elif wanted and next_offset not in here.holes:
                    found.append(
                        self.record(
                            fields["topic"],
                            int(fields["queueId"]),
                            next_offset,
                            here.tag(next_offset),
                        )
                    )
                next_offset += 1
            if not found:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
        fields = {
            "nextBeginOffset": str(next_offset),
            "minOffset": str(here.first),
            "maxOffset": str(end),
            "suggestWhichBrokerId": str(self.suggests),
            **({"damagedMsgNums": str(damaged)} if damaged else {}),
        }
        return self._frame(
            command,
            RemotingCommand(code=code, flag=1, opaque=command.opaque, ext_fields=fields),
            b"".join(found),
        )

    @staticmethod
    def record(topic: str, queue_id: int, offset: int, tag: str) -> bytes:
        body = b"%s/%d/%d" % (topic.encode(), queue_id, offset)
        return Stored(
            topic=topic.encode(),
            queue_id=queue_id,
            queue_offset=offset,
            body=body,
            properties=properties(TAGS=tag),
        ).encode()

    @staticmethod
    def batch(topic: str, queue_id: int, offset: int, count: int) -> bytes:
        return Stored(
            topic=topic.encode(),
            queue_id=queue_id,
            queue_offset=offset,
            body=encode_batch([BatchItem(0, b"%d" % (offset + n), b"") for n in range(count)]),
            sys_flag=MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP,
        ).encode()

    @staticmethod
    def _frame(_request: RemotingCommand, answer: RemotingCommand, body: bytes) -> Frame:
        (frame,) = FrameDecoder().feed(encode_frame(0, encode_header(answer), body))
        return frame


class SimWire:
    """Answers come one by one, the last first unless they are to be ``in_order``: that is nothing
    to rely on."""

    def __init__(self, cluster: SimCluster, address: str) -> None:
        self.address = address
        self.frames: list[Frame] = []
        self.closed = False
        self._cluster = cluster
        self._decoder = FrameDecoder()

    def send(self, data: bytes, timeout: float) -> None:
        assert not self.closed
        if self.address in self._cluster.down:
            raise ConnectionLostError(f"{self.address} is down")
        for form, header, _body in self._decoder.feed(data):
            self.frames.append(self._cluster.answer(self.address, decode_header(form, header)))
        self._cluster.most_under_way = max(self._cluster.most_under_way, len(self.frames))

    def receive(self, timeout: float) -> list[PlacedFrame]:
        assert self.frames, "nothing was asked"
        self._cluster.break_after -= 1
        if self._cluster.break_after == 0 or self.address in self._cluster.down:
            raise ConnectionLostError(f"{self.address} broke")
        form, header, body = self.frames.pop(0 if self._cluster.in_order else -1)
        return [(form, header, stretch_of(body))]

    def close(self) -> None:
        self.closed = True
