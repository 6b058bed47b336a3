"""Who is connected, and questions passed on to them: 203, 204, 307, 328 (class AdminBrokerProcessor; ``headers.md`` B.9
and part C)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ...remoting.dispatch import Context, ProcessorTable, Reply
from ...remoting.errors import RemotingError, RequestError, RequestTimeout
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.connection import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from ...remoting.protocol.codes import V3_1_8_SNAPSHOT, RequestCode, ResponseCode, version_name
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import GetConsumerRunningInfoRequest, ProducerGroupRequest
from ...remoting.protocol.wire import EmptyFields
from ..clients import ClientChannel, Consumers, Producers

log = logging.getLogger(__name__)

CLIENT_TIMEOUT_S: Final = 10.0
"""How long a client may take to answer what the broker asks it."""


class OnlineProcessor:
    def __init__(self, producers: Producers, consumers: Consumers) -> None:
        self._producers = producers
        self._consumers = consumers

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
        }

    def consumer_connections(self, request: ConsumerGroupRequest, _body: memoryview, _ctx: Context) -> Reply:
        group = self._consumers.get(request.consumer_group)
        if group is None:
            remark = f"the consumer group[{request.consumer_group}] not online"
            raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=_connections(group.channels.values()),
            subscription_table={topic: each.data for topic, each in group.subscriptions.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Reply(body=encode_body(body))

    def producer_connections(self, request: ProducerGroupRequest, _body: memoryview, _ctx: Context) -> Reply:
        group = self._producers.get(request.producer_group)
        if group is None:
            remark = f"the producer group[{request.producer_group}] not exist"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return Reply(body=encode_body(ProducerConnection(connection_set=_connections(group.channels.values()))))

    def all_producers(self, _request: EmptyFields, _body: memoryview, _ctx: Context) -> Reply:
        table = {group.name: [_producer_info(each) for each in group.channels.values()] for group in self._producers}
        return Reply(body=encode_body(ProducerTable(data=table)))

    async def running_info(self, request: GetConsumerRunningInfoRequest, _body: memoryview, _ctx: Context) -> Reply:
        """The consumer's own answer, whatever it is."""
        channel = self._channel_for(request.consumer_group, request.client_id)
        return await relay(RequestCode.GET_CONSUMER_RUNNING_INFO, request, b"", request.consumer_group, channel)

    def _channel_for(self, group_name: str, client_id: str) -> ClientChannel:
        """A member that can be asked. Raises ``RequestError``."""
        group = self._consumers.get(group_name)
        channel = group.find(client_id) if group is not None else None
        if channel is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
        if channel.version < V3_1_8_SNAPSHOT:
            remark = (
                f"The Consumer <{client_id}> Version <{version_name(channel.version)}> too low to finish, "
                f"please upgrade it to {version_name(V3_1_8_SNAPSHOT)}"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return channel


async def relay(
    code: RequestCode, header: GetConsumerRunningInfoRequest, body: bytes, group: str, channel: ClientChannel
) -> Reply:
    """Ask a client and hand its answer on."""
    who = f"consumer <{group}> <{channel.client_id}>"
    try:
        response = await channel.connection.invoke(code, header, body, timeout=CLIENT_TIMEOUT_S)
    except RequestTimeout as error:
        raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {error}") from None
    except RemotingError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"invoke {who} Exception: {error}") from None
    return Reply(response.code, body=response.body, remark=response.remark, ext_fields=response.ext_fields or None)


def _connections(channels: Iterable[ClientChannel]) -> tuple[ClientConnection, ...]:
    return tuple(
        ClientConnection(client_id=c.client_id, client_addr=c.connection.peer, language=c.language, version=c.version)
        for c in channels
    )


def _producer_info(channel: ClientChannel) -> ProducerInfo:
    return ProducerInfo(
        client_id=channel.client_id,
        remote_ip=f"/{channel.connection.peer}",
        language=channel.language,
        version=channel.version,
        last_update_timestamp=channel.last_update_ms,
    )
