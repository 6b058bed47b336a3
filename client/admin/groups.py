"""Consumer groups and producer groups: configuration, who is online, how far behind."""

from __future__ import annotations

from functools import partial

from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.connection import ConsumerConnection, ProducerConnection
from ...remoting.protocol.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from ...remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ...remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    ProducerGroupRequest,
)
from ...remoting.protocol.commands.group import (
    DeleteSubscriptionGroupRequest,
    GetConsumeStatsRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import retry_topic
from .core import SLOW, AdminCore


class GroupOperations(AdminCore):
    # --- configuration
    # ----------------------------------------------------------------------------------------------

    async def create_subscription_group(
        self, address: str, config: SubscriptionGroupConfig
    ) -> None:
        """Make a consumer group on a master, or change it."""
        await self._invoke(
            address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(config)
        )

    async def delete_subscription_group(
        self, address: str, group: str, *, remove_offset: bool = False
    ) -> None:
        """Make a master forget a group, and (``remove_offset``) how far it got. An unknown group is
        no error."""
        header = DeleteSubscriptionGroupRequest(group_name=group, remove_offset=remove_offset)
        await self._invoke(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def subscription_groups(self, address: str) -> SubscriptionGroupTable:
        """All groups of one broker with their configuration, and the version of that table."""
        return await self._ask(
            address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, SubscriptionGroupTable
        )

    # --- how far
    # ----------------------------------------------------------------------------------------------

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is behind, for one topic or for all. Raises ``NoRouteError`` for a group
        that nobody knows."""
        addresses = await self._addresses_of_topic(retry_topic(group))
        asking = partial(self._consume_stats_of, group=group, topic=topic)
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for found in await self._each(asking, addresses):
            table |= found.offset_table
            tps += found.consume_tps
        return ConsumeStats(offset_table=table, consume_tps=tps)

    async def _consume_stats_of(
        self, address: str, group: str, topic: str | None = None
    ) -> ConsumeStats:
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        return await self._ask(
            address, RequestCode.GET_CONSUME_STATS, header, ConsumeStats, times=SLOW
        )

    # --- who
    # ----------------------------------------------------------------------------------------------

    async def consumer_connection(
        self, group: str, address: str | None = None
    ) -> ConsumerConnection:
        """The clients of a group and what they subscribe, from one broker (default: any of the
        group).

        Raises ``ConsumerNotOnline`` when nobody of the group is connected, ``NoRouteError`` for a
        group that nobody knows.
        """
        header = ConsumerGroupRequest(consumer_group=group)
        address = address or await self._any_broker_of(retry_topic(group))
        return await self._ask(
            address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, ConsumerConnection
        )

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """The clients of a producer group, from any broker of the topic. Raises
        ``NoRouteError``."""
        header = ProducerGroupRequest(producer_group=group)
        address = await self._any_broker_of(topic)
        return await self._ask(
            address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, ProducerConnection
        )

    async def consumer_running_info(
        self, group: str, client_id: str, *, jstack: bool = False, address: str | None = None
    ) -> ConsumerRunningInfo:
        """What one client of a group is doing: the broker asks it and passes its answer on.

        ``jstack``: also what its threads (or tasks) are at. Raises ``NoRouteError`` for a group
        that nobody knows.
        """
        header = GetConsumerRunningInfoRequest(
            consumer_group=group, client_id=client_id, jstack_enable=jstack
        )
        address = address or await self._any_broker_of(retry_topic(group))
        return await self._ask(
            address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, ConsumerRunningInfo, times=SLOW
        )

    async def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str, address: str
    ) -> ConsumeMessageDirectlyResult:
        """Have one client of a group handle one message now; ``offset_msg_id`` is the broker's id,
        ``address`` its place."""
        header = ConsumeMessageDirectlyRequest(
            consumer_group=group, client_id=client_id, msg_id=offset_msg_id
        )
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        return await self._ask(address, code, header, ConsumeMessageDirectlyResult, times=SLOW)
