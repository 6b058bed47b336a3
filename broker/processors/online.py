"""Who is connected: 203, 204, 328 (class AdminBrokerProcessor; ``headers.md`` part C)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import encode_body, encode_in_slices
from ...remoting.protocol.bodies.connection import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import ProducerGroupRequest
from ...remoting.protocol.wire import EmptyFields
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps, slices
from ..state.clients import ClientChannel, Consumers, Producers

_GROUPS_AT_ONCE: Final = 500


class OnlineProcessor:
    def __init__(self, producers: Producers, consumers: Consumers) -> None:
        self._producers = producers
        self._consumers = consumers
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._sliced.handler(self.all_producers),
        }

    def consumer_connections(
        self, request: ConsumerGroupRequest, _body: Body, _ctx: Context
    ) -> Reply:
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

    def producer_connections(
        self, request: ProducerGroupRequest, _body: Body, _ctx: Context
    ) -> Reply:
        group = self._producers.get(request.producer_group)
        if group is None:
            remark = f"the producer group[{request.producer_group}] not exist"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return Reply(
            body=encode_body(
                ProducerConnection(connection_set=_connections(group.channels.values()))
            )
        )

    def all_producers(self, _request: EmptyFields, _body: Body, _ctx: Context) -> Steps[Reply]:
        table: dict[str, list[ProducerInfo]] = {}
        for some in slices(list(self._producers), _GROUPS_AT_ONCE):
            table |= {
                group.name: [_producer_info(each) for each in group.channels.values()]
                for group in some
            }
            yield
        return Reply(body=(yield from encode_in_slices(ProducerTable(data=table))))


def _connections(channels: Iterable[ClientChannel]) -> tuple[ClientConnection, ...]:
    return tuple(
        ClientConnection(
            client_id=c.client_id,
            client_addr=c.connection.peer,
            language=c.language,
            version=c.version,
        )
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
