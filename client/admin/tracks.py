"""Who has consumed a message (class DefaultMQAdminExtImpl, messageTrackDetail; ``admin-cli.md``
§3.19)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ...remoting.errors import BrokerError, RocketMQError
from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.heartbeat import ConsumeType
from ...remoting.protocol.bodies.lists import GroupList
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import TopicRequest
from ...remoting.protocol.record.decode import MessageExt
from ..errors import NoRouteError
from .groups import GroupOperations
from .messages import MessageOperations


class TrackType(Enum):
    """How far a group is with a message."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    """The group is past it, but its tags do not match."""
    PULL = "PULL"
    """The group pulls: it alone knows."""
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


class MessageTrack(NamedTuple):
    """One group and one message."""

    group: str
    track: TrackType
    problem: str | None = None
    """Why it is not known, ``CODE:206 DESC:...``."""


class TrackOperations(MessageOperations, GroupOperations):
    async def message_tracks(self, message: MessageExt) -> list[MessageTrack]:
        """How far every group of the message's topic is with it, as the first broker of the topic
        knows groups.

        Raises ``NoRouteError`` when the topic is gone.
        """
        addresses = await self._addresses_of_topic(message.topic)
        if not addresses:
            return []
        header = TopicRequest(topic=message.topic)
        groups = await self._ask(
            addresses[0], RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, GroupList
        )
        return [await self._track(message, group) for group in groups.group_list]

    async def _track(self, message: MessageExt, group: str) -> MessageTrack:
        try:
            connection = await self.consumer_connection(group)
            if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
                return MessageTrack(group, TrackType.PULL)
            consumed = await self._is_consumed(message, group)
        except BrokerError as error:
            offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
            track = TrackType.NOT_ONLINE if offline else TrackType.UNKNOWN
            return MessageTrack(group, track, f"CODE:{error.code} DESC:{error.remark}")
        except NoRouteError as error:
            return MessageTrack(
                group, TrackType.UNKNOWN, f"CODE:{int(ResponseCode.TOPIC_NOT_EXIST)} DESC:{error}"
            )
        except RocketMQError as error:
            return MessageTrack(group, TrackType.UNKNOWN, str(error))
        if not consumed:
            return MessageTrack(group, TrackType.NOT_CONSUME_YET)
        filtered = not _takes(connection, message)
        return MessageTrack(
            group, TrackType.CONSUMED_BUT_FILTERED if filtered else TrackType.CONSUMED
        )

    async def _is_consumed(self, message: MessageExt, group: str) -> bool:
        """A group without offsets on the broker (one that broadcasts) counts as not online."""
        stats = await self.consume_stats(group)
        if not stats.offset_table:
            raise BrokerError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "the group has no offsets on the brokers: does it broadcast?",
            )
        brokers = (await self.cluster_info()).broker_addr_table
        return any(
            offsets.consumer_offset > message.queue_offset
            for queue, offsets in stats.offset_table.items()
            if (queue.topic, queue.queue_id) == (message.topic, message.queue_id)
            and (broker := brokers.get(queue.broker_name)) is not None
            and broker.master_addr == message.store_host
        )


def _takes(connection: ConsumerConnection, message: MessageExt) -> bool:
    subscription = connection.subscription_table.get(message.topic)
    if subscription is None:
        return True
    tags = subscription.tags_set
    return not tags or "*" in tags or message.tags in tags
