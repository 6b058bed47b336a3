"""Who has consumed a message (class DefaultMQAdminExtImpl, messageTrackDetail; ``admin-cli.md``
§3.19)."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from functools import partial
from typing import NamedTuple

from ...remoting.errors import BrokerError, RocketMQError
from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.heartbeat import ConsumeType
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.record.decode import MessageExt
from ..errors import NoRouteError
from .groups import GroupOperations
from .messages import MessageOperations
from .topics import TopicOperations


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


class TrackOperations(MessageOperations, GroupOperations, TopicOperations):
    async def message_tracks(
        self, message: MessageExt, groups: Collection[str] | None = None
    ) -> list[MessageTrack]:
        """How far groups are with a message; default: those of its topic, as the first broker of
        the topic knows them.

        Raises ``NoRouteError`` when the topic is gone.
        """
        if groups is None:
            addresses = await self._addresses_of_topic(message.topic)
            groups = await self._groups_of(addresses[0], message.topic) if addresses else ()
        brokers = (await self.cluster_info()).broker_addr_table if groups else {}
        home = next(
            (name for name, each in brokers.items() if each.master_addr == message.store_host), None
        )
        return await self._each(partial(self._track, message, home), groups)

    async def _track(self, message: MessageExt, home: str | None, group: str) -> MessageTrack:
        """``home``: the broker whose master has stored it."""
        try:
            connection = await self.consumer_connection(group)
            if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
                return MessageTrack(group, TrackType.PULL)
            consumed = await self._is_consumed(message, home, group)
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

    async def _is_consumed(self, message: MessageExt, home: str | None, group: str) -> bool:
        """A group without offsets on any broker (one that broadcasts) counts as not online."""
        found = (
            (await self._consume_stats_of(message.store_host, group)).offset_table if home else {}
        )
        if not found and not (await self.consume_stats(group)).offset_table:
            raise BrokerError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "the group has no offsets on the brokers: does it broadcast?",
            )
        return any(
            offsets.consumer_offset > message.queue_offset
            for queue, offsets in found.items()
            if queue == (message.topic, home, message.queue_id)
        )


def _takes(connection: ConsumerConnection, message: MessageExt) -> bool:
    subscription = connection.subscription_table.get(message.topic)
    if subscription is None:
        return True
    tags = subscription.tags_set
    return not tags or "*" in tags or message.tags in tags
