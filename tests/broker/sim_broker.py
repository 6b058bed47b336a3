"""A broker without sockets: the real one on a store in a folder of the test, and clients on
simulated connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Handler
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig

from ..sim import ManualClock, Pipe, SimOwner

ADDRESS = ("127.0.0.1", 10911)
_CONFIG: Final[dict[str, Any]] = {
    "broker_name": "b",
    "broker_cluster_name": "C",
    "namesrv_addr": None,
}


class SimClient:
    """A client of the broker. ``pushed`` is what the broker asked or told it, ``answers`` what it
    says to that."""

    def __init__(self, broker_side: SimOwner, port: int) -> None:
        self.pushed: list[tuple[RequestCode, Any]] = []
        self.pushed_bodies: list[bytes] = []
        self.answers: dict[RequestCode, Handler] = {}
        pushes = (
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            RequestCode.CHECK_TRANSACTION_STATE,
        )
        heard: dict[RequestCode, Handler] = dict.fromkeys(pushes, self._hear)
        here, there = Pipe(ADDRESS, ("127.0.0.1", port)), Pipe(("127.0.0.1", port), ADDRESS)
        here.other, there.other = there, here
        here.own = self.connection = Connection(SimOwner(Dispatcher(heard)))
        there.own = self.at_broker = Connection(broker_side)
        self.connection.connection_made(here)
        self.at_broker.connection_made(there)

    def _hear(self, request: Any, body: Body, ctx: Context) -> Any:
        code = RequestCode(ctx.code)
        self.pushed.append((code, request))
        self.pushed_bodies.append(bytes(body))
        answer = self.answers.get(code)
        return answer(request, body, ctx) if answer is not None else None

    async def ask(
        self, code: RequestCode, header: Record | None = None, body: bytes = b""
    ) -> Response:
        return await self.connection.invoke(code, header, body, timeout=10)

    async def heartbeat(
        self, client_id: str, *groups: str, topic: str = "T", producers: tuple[str, ...] = ()
    ) -> Response:
        wanted = (SubscriptionData(topic=topic, sub_string="*", sub_version=1),)
        data = HeartbeatData(
            client_id=client_id,
            consumer_data_set=tuple(
                ConsumerData(group_name=group, subscription_data_set=wanted) for group in groups
            ),
            producer_data_set=tuple(ProducerData(group_name=group) for group in producers),
        )
        return await self.ask(RequestCode.HEART_BEAT, None, encode_body(data))

    async def send(
        self, topic: str, body: bytes, queue_id: int = 0, properties: str | None = None
    ) -> SendMessageResponse:
        header = SendMessageRequest(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0, born_timestamp=1, flag=0, properties=properties,
        )  # fmt: skip
        response = await self.ask(RequestCode.SEND_MESSAGE, header, body)
        found = response.check().header
        assert isinstance(found, SendMessageResponse)
        return found


class SimBroker:
    """The broker, its clock, and a way to connect."""

    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.owner = SimOwner(Dispatcher(broker.table, guard=broker.guard), clock=clock)
        self.owner.disconnected = broker.clients.watch.on_disconnect  # type: ignore[method-assign]
        self._ports = iter(range(50000, 60000))

    async def make_topic(self, name: str) -> None:
        """As an administrator does, in the file when this returns: answers to messages wait for
        that."""
        self.broker.state.topics.update(
            TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)
        )
        await self.broker.tables.topics_file.saved()

    def connect(self) -> SimClient:
        return SimClient(self.owner, next(self._ports))


def store_config(folder: Path, **changes: Any) -> MessageStoreConfig:
    """Of a store whose files are made at once."""
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 20,
        "mapped_file_size_consume_queue": 20_000,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
    }
    return MessageStoreConfig(store_path_root_dir=str(folder), **(sizes | changes))


@asynccontextmanager
async def sim_broker(
    folder: Path,
    *,
    store: MessageStoreConfig | None = None,
    server: BrokerServerConfig | None = None,
    disk: Disk | None = None,
    clock: ManualClock | None = None,
    address: tuple[str, int] = ADDRESS,
    **config: Any,
) -> AsyncIterator[SimBroker]:
    """A broker named b in cluster C, unless it is told otherwise; its tables are written by a real
    service, its clock stands still."""
    clock = clock or ManualClock()
    store = store or store_config(folder)
    settings = BrokerSettings(
        BrokerConfig(**(_CONFIG | {"broker_ip1": address[0]} | config)),
        server or BrokerServerConfig(),
        store=store,
    )
    message_store = MessageStore.open(store, clock, store_host=pack_host(*address), disk=disk)
    broker = Broker(settings, message_store, address, clock)
    tables = asyncio.create_task(broker.tables.files.run())
    try:
        yield SimBroker(broker, clock)
    finally:
        tables.cancel()
        await asyncio.gather(tables, return_exceptions=True)
        message_store.close()
