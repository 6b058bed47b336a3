"""Clients announce themselves, take their leave and ask for each other: 34, 35, 38, 46 (classes
ClientManageProcessor, ConsumerManageProcessor; ``headers.md`` B.1 to B.4)."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.clock import Clock, steady_ms
from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.outages import Outages, without_figures
from ...remoting.protocol.bodies.codec import decode_request_body, encode_body
from ...remoting.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
)
from ...remoting.protocol.bodies.lists import ConsumerIdList
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import UnregisterClientRequest
from ...remoting.protocol.message.topic_names import retry_topic, topic_error
from ...remoting.protocol.sql92.lexer import FilterError
from ...remoting.protocol.wire import EmptyFields, NoFields
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps
from ..config.config import BrokerConfig
from ..state.client_watch import ClientWatch
from ..state.clients import TAG, ClientChannel, Consumers, MembersFullError, Producers
from ..state.consumer_filters import SQL92, ConsumerFilters, compile_expression
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topics, topic_sys_flag
from .pull import no_property_filter

log: Final = logging.getLogger(__name__)

MAX_GROUPS_PER_CLIENT: Final = 10_000
MAX_EXPRESSION_CHARS_PER_CLIENT: Final = 1 << 16
"""Of its SQL92 expressions together: they are compiled while others wait."""

MAX_SUBSCRIPTIONS_PER_CLIENT: Final = 10_000
_AT_ONCE: Final = 100
"""Groups that are joined in one slice of a long heartbeat: a few milliseconds, because each may get
a retry topic."""

_EMPTY: Final = EmptyFields()


class ClientProcessor:
    def __init__(
        self,
        topics: Topics,
        groups: SubscriptionGroups,
        producers: Producers,
        consumers: Consumers,
        watch: ClientWatch,
        filters: ConsumerFilters,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._producers = producers
        self._consumers = consumers
        self._watch = watch
        self._filters = filters
        self._config = config
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.HEART_BEAT: self._sliced.handler(self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: self._sliced.handler(self.unregister),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.list_consumers,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
        }

    def heartbeat(self, _request: NoFields, body: Body, ctx: Context) -> Steps[Reply]:
        """Who else is in a group is told of a change before this answer leaves."""
        data = self._read_heartbeat(body, ctx)
        consumers, producers = data.consumer_data_set, data.producer_data_set
        refused: RequestError | None = None
        for number, consumer in enumerate(consumers, 1):
            if ctx.connection.closed:  # since the last slice
                return Reply()
            channel = self._channel(data.client_id, ctx)
            refused = (yield from self._register_consumer(consumer, channel)) or refused
            if number % _AT_ONCE == 0:
                yield
        for number, producer in enumerate(producers, 1):
            if number % _AT_ONCE == 0:
                yield
            if ctx.connection.closed:
                return Reply()
            channel = self._channel(data.client_id, ctx)
            try:
                if self._producers.register(producer.group_name, channel):
                    log.info("producer joins group=%s %r", producer.group_name, channel)
            except RequestError as error:
                refused = error
        if refused is not None:
            text = "heartbeat refused in part client=%s peer=%s reason=%s"
            cause = without_figures(refused.remark)
            ctx.connection.outages.occurs(
                log, ("refused", cause), text, data.client_id, ctx.peer, refused.remark
            )
            raise refused
        return Reply()

    def _channel(self, client_id: str, ctx: Context) -> ClientChannel:
        """For each group another one."""
        return ClientChannel(
            ctx.connection,
            client_id,
            ctx.language,
            ctx.version,
            ctx.received_at_ms,
            steady_ms(self._clock),
        )

    def _read_heartbeat(self, body: Body, ctx: Context) -> HeartbeatData:
        """Raises ``RequestError`` for one that is over the limits, ``BodyError``."""
        data = decode_request_body(HeartbeatData, body)
        consumers, producers = data.consumer_data_set, data.producer_data_set
        known = self._consumers.group_count(ctx.connection) + self._producers.group_count(
            ctx.connection
        )
        if max(known, len(consumers) + len(producers)) > MAX_GROUPS_PER_CLIENT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the client {data.client_id} is in more than {MAX_GROUPS_PER_CLIENT} groups, use "
                "several clients",
            )
        subscriptions = [each for consumer in consumers for each in consumer.subscription_data_set]
        if len(subscriptions) > MAX_SUBSCRIPTIONS_PER_CLIENT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the client {data.client_id} subscribes {len(subscriptions)} topics, the limit is "
                f"{MAX_SUBSCRIPTIONS_PER_CLIENT}: use several clients",
            )
        chars = sum(
            len(each.sub_string or "") for each in subscriptions if each.expression_type == SQL92
        )
        if chars > MAX_EXPRESSION_CHARS_PER_CLIENT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the SQL92 expressions of the client {data.client_id} have {chars} characters, "
                f"{MAX_EXPRESSION_CHARS_PER_CLIENT} are allowed",
            )
        return data

    def _register_consumer(
        self, data: ConsumerData, channel: ClientChannel
    ) -> Steps[RequestError | None]:
        """Why the group, or its retry topic, could not be made: there are too many. Its consumer is
        known all the same, and so are the client's other groups."""
        notify, refused = True, None
        try:
            group = self._groups.get(data.group_name)
            if group is not None:
                notify = group.notify_consumer_ids_changed_enable
                self._make_retry_topic(data, group.retry_queue_nums, channel.connection.outages)
        except RequestError as error:
            refused = error
        try:
            if self._consumers.register(data, channel):
                log.info("consumer joins or changes group=%s %r", data.group_name, channel)
                if notify:
                    self._watch.notify(data.group_name)
        except MembersFullError as error:
            return error
        subscribed = self._consumers.get(data.group_name)
        if subscribed is not None:
            yield from self._filters.register(
                data.group_name, subscribed.subscriptions.values(), self._clock.time_ms
            )
            if (
                self._consumers.get(data.group_name) is None
            ):  # its last member has gone between two slices
                self._filters.unregister(data.group_name, self._clock.time_ms())
        return refused

    def _make_retry_topic(self, data: ConsumerData, queue_nums: int, outages: Outages) -> None:
        topic = retry_topic(data.group_name)
        if topic in self._topics:
            return
        if error := topic_error(topic):
            outages.occurs(
                log,
                ("retry topic",),
                "no retry topic for group=%s: %s",
                data.group_name,
                error,
            )
            return
        sys_flag = topic_sys_flag(topic, unit_mode=data.unit_mode)
        self._topics.create_for_group(topic, queue_nums=queue_nums, sys_flag=sys_flag)

    def unregister(
        self, request: UnregisterClientRequest, _body: Body, ctx: Context
    ) -> Steps[Reply]:
        """Removal goes by connection, whatever client id the request names. Not before a heartbeat
        that came before it and has to wait: that one would bring its client back, for two minutes.
        """
        yield from ()
        if request.producer_group is not None:
            self._producers.unregister(request.producer_group, ctx.connection)
        if (name := request.consumer_group) is not None:
            others_remain = self._consumers.unregister(name, ctx.connection)
            group = self._groups.find(name)
            if others_remain and (group is None or group.notify_consumer_ids_changed_enable):
                self._watch.notify(name)
        return Reply(header=_EMPTY)

    def list_consumers(self, request: ConsumerGroupRequest, _body: Body, ctx: Context) -> Reply:
        ids = self._consumers.client_ids(request.consumer_group)
        if not ids:
            remark = f"no consumer for this group, {request.consumer_group}"
            return Reply(ResponseCode.SYSTEM_ERROR, header=_EMPTY, remark=remark)
        return Reply(header=_EMPTY, body=encode_body(ConsumerIdList(consumer_id_list=ids)))

    def check_config(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        """Whether the broker can filter as a consumer wants: by tags always, by SQL92 when it is
        allowed and compiles."""
        subscription = decode_request_body(CheckClientRequestBody, body).subscription_data
        kind = subscription.expression_type or TAG
        if kind == TAG:
            return Reply()
        if not self._config.enable_property_filter:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=no_property_filter(kind))
        try:
            compile_expression(subscription.sub_string, kind)
        except FilterError as error:
            return Reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return Reply()
