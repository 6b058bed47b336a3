"""Making a consumer group known to a broker, so that tools can show how far it is.

A broker makes the configuration of a group, and the topic for its retries by which tools find it,
when a member introduces itself. This member takes its leave at once: consumers of the same name
would leave queues to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...client.cluster.instance import ClientInstance
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.client import UnregisterClientRequest

__all__ = ["make_known"]

_TIMEOUT_S: Final = 5.0


async def make_known(
    instance: ClientInstance, address: str, group: str, topics: Iterable[str]
) -> None:
    """``address``: of a master; names with their namespace. Raises ``RemotingError``,
    ``BrokerError``."""
    member = f"{instance.client_id}@{group}"
    introduction = HeartbeatData(
        client_id=member,
        consumer_data_set=(
            ConsumerData(
                group_name=group,
                consume_type=ConsumeType.CONSUME_ACTIVELY,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
                subscription_data_set=tuple(
                    SubscriptionData(topic=topic, sub_string="*") for topic in topics
                ),
            ),
        ),
    )
    remoting = instance.remoting
    answer = await remoting.invoke(
        address, RequestCode.HEART_BEAT, body=encode_body(introduction), timeout=_TIMEOUT_S
    )
    answer.check(address)
    leave = UnregisterClientRequest(client_id=member, consumer_group=group)
    answer = await remoting.invoke(
        address, RequestCode.UNREGISTER_CLIENT, leave, timeout=_TIMEOUT_S
    )
    answer.check(address)
