"""A client on simulated connections to brokers that answer what a test wants; frames, codec,
dispatch are real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.consumer.group_member import GroupMember
from aiorocketmq.client.consumer.queue_locks import QueueLocks
from aiorocketmq.client.consumer.rebalance import AllocateStrategy, averagely
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.client.offsets.offset_store import OffsetStore
from aiorocketmq.client.offsets.start_offset import StartFrom, StartPolicy
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import ConsumeType
from aiorocketmq.remoting.protocol.bodies.lists import ConsumerIdList
from aiorocketmq.remoting.protocol.bodies.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.pull import PullMessageResponse
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.connection import Connection

from ..sim import ManualClock, Pipe, SimOwner

ADDRESS = "127.0.0.1:10911"
NAME_SERVER = "127.0.0.1:9876"
BROKER = "broker-a"

Answer = Callable[[Any], Reply]
"""What a broker says to the header of a request (to the decoded body, for locks)."""


class _PipedRemoting(RemotingClient):
    """Every address leads to the scripted broker, unless it is down; the name server, which only it
    is as well, never is."""

    script: ScriptedBroker

    async def _open(self, host: str, port: int) -> Connection:
        await asyncio.sleep(0)
        if f"{host}:{port}" != NAME_SERVER:
            self.script.knocks += 1
            if self.script.down or f"{host}:{port}" in self.script.gone:
                raise ConnectionRefusedError
        here, there = (
            Pipe(("127.0.0.1", 10911), ("127.0.0.1", 50000)),
            Pipe(("127.0.0.1", 50000), ("127.0.0.1", 10911)),
        )
        here.other, there.other = there, here
        here.own = connection = Connection(self, pause_reading=False)
        there.own = served = Connection(self.script.owner)
        connection.connection_made(here)
        served.connection_made(there)
        self.script.connections.append(served)
        return connection


class ScriptedBroker:
    """``answers`` by request code; ``asked`` is every request that came, with its header (locks:
    body)."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.down = False
        self.gone: set[str] = set()
        """Addresses at which nobody is."""
        self.knocks = 0
        """Attempts to connect to the broker."""
        self.asked: list[tuple[RequestCode, Any]] = []
        self.connections: list[Connection] = []
        self.locked_by_others: set[MessageQueue] = set()
        self.members: list[str] = []
        self.answers: dict[RequestCode, Answer] = {
            RequestCode.HEART_BEAT: lambda _: Reply(),
            RequestCode.UNREGISTER_CLIENT: lambda _: Reply(),
            RequestCode.CHECK_CLIENT_CONFIG: lambda _: Reply(),
            RequestCode.UPDATE_CONSUMER_OFFSET: lambda _: Reply(),
            RequestCode.UNLOCK_BATCH_MQ: lambda _: Reply(),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda _: Reply(int(ResponseCode.TOPIC_NOT_EXIST)),
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda _: Reply(
                body=encode_body(ConsumerIdList(consumer_id_list=list(self.members)))
            ),
        }
        codes = (
            *self.answers,
            RequestCode.QUERY_CONSUMER_OFFSET,
            RequestCode.GET_MIN_OFFSET,
            RequestCode.GET_MAX_OFFSET,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            RequestCode.PULL_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.CONSUMER_SEND_MSG_BACK,
        )
        self.owner = SimOwner(Dispatcher(dict.fromkeys(codes, self._serve)), clock=self.clock)

    def _serve(self, request: Any, body: Body, ctx: Context) -> Reply:
        code = RequestCode(ctx.code)
        if code is RequestCode.LOCK_BATCH_MQ:
            request = decode_body(LockBatchRequestBody, bytes(body))
        elif code is RequestCode.UNLOCK_BATCH_MQ:
            request = decode_body(UnlockBatchRequestBody, bytes(body))
        self.asked.append((code, request))
        return self.answers[code](request)

    def _lock(self, request: LockBatchRequestBody) -> Reply:
        granted = tuple(queue for queue in request.mq_set if queue not in self.locked_by_others)
        return Reply(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=granted)))

    def requests(self, code: RequestCode) -> list[Any]:
        return [request for asked, request in self.asked if asked is code]

    def restart(self) -> None:
        """Every connection is lost."""
        for connection in self.connections:
            connection.close("restarted")
        self.connections.clear()

    def instance(self) -> ClientInstance:
        """A client that knows the brokers' addresses."""
        instance = ClientInstance(
            namesrv=NAME_SERVER, instance_name="me", client_ip="10.0.0.1", clock=self.clock
        )
        remoting = _PipedRemoting(clock=self.clock, dispatcher=instance.remoting.dispatcher)
        remoting.script = self
        instance.remoting = instance.name_servers._remoting = remoting
        self.members = [instance.client_id]
        return instance

    def have_nothing(self, offset: int) -> None:
        """The group has come to ``offset`` in every queue, and that is where they end."""
        nothing = PullMessageResponse(
            suggest_which_broker_id=0, next_begin_offset=offset, min_offset=0, max_offset=offset
        )
        at_the_end = Reply(header=OffsetResponse(offset=offset))
        self.answers |= {
            RequestCode.QUERY_CONSUMER_OFFSET: lambda _: at_the_end,
            RequestCode.GET_MAX_OFFSET: lambda _: at_the_end,
            RequestCode.PULL_MESSAGE: lambda _: Reply(
                int(ResponseCode.PULL_NOT_FOUND), header=nothing
            ),
        }

    def know_topic(
        self, instance: ClientInstance, topic: str, queues: int = 4
    ) -> list[MessageQueue]:
        """The client has its route."""
        instance.routes._store(topic_route(topic, route_of(queues)))
        return [MessageQueue(topic, BROKER, number) for number in range(queues)]


def route_of(queues: int, address: str = ADDRESS) -> TopicRouteData:
    """A topic on the one broker."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=BROKER, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        ],
        broker_datas=[BrokerData(cluster="C", broker_name=BROKER, broker_addrs={0: address})],
    )


class NotingOwner:
    """A consumer that only notes what it is told; ``busy`` queues cannot be given up."""

    def __init__(self) -> None:
        self.taken: list[tuple[MessageQueue, int]] = []
        self.given_up: list[MessageQueue] = []
        self.busy: set[MessageQueue] = set()
        self.hanging: set[MessageQueue] = set()

    def take(self, queue: MessageQueue, offset: int) -> None:
        self.taken.append((queue, offset))

    async def give_up(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        given = [queue for queue in queues if queue not in self.busy]
        self.given_up += given
        self.hanging.difference_update(given)
        return given

    def stalled(self) -> set[MessageQueue]:
        return self.hanging


def member_of(
    instance: ClientInstance,
    owner: NotingOwner,
    topic: str,
    *,
    start: StartPolicy | None = None,
    allocate: AllocateStrategy = averagely,
    locks: QueueLocks | None = None,
    broadcast_offsets: OffsetStore | None = None,
) -> GroupMember:
    """A member of the group g that subscribes a topic."""
    member = GroupMember(
        instance,
        "g",
        owner,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        allocate=allocate,
        start=start or StartPolicy(StartFrom.FIRST, None, 0),
        broadcast_offsets=broadcast_offsets,
        locks=locks,
    )
    member.subscribe(tag_subscription(topic, "*", 1))
    return member
