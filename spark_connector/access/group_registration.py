"""Making a consumer group known that never has a consumer online.

Tools find a group by its retry topic (``consumerProgress`` asks for the route of it,
``admin-cli.md`` §3.15), which a broker makes when a consumer of the group sends it a heartbeat. A
heartbeat of ours would make other members of the group leave queues to somebody who takes none. So
both are made as an administrator makes them, where they are not there yet.
"""

from __future__ import annotations

import logging
from typing import Final

from ...client.cluster.instance import ClientInstance
from ...remoting.errors import ConnectError
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.bodies.topic_config import TopicConfig
from ...remoting.protocol.message.topic_names import retry_topic

__all__ = ["register_group"]

log: Final = logging.getLogger(__name__)


async def register_group(instance: ClientInstance, group: str, broker_name: str) -> None:
    """``group`` with its namespace. Raises ``BrokerError`` where the account may not,
    ``RemotingError``."""
    from ...client.admin import Admin  # all of it is much, and few need it

    topic = retry_topic(group)
    route = await instance.routes.look_up(topic)
    if route is not None and any(
        each.broker_name == broker_name for each in route.data.queue_datas
    ):
        return
    address = instance.routes.master(broker_name)
    if address is None:
        raise ConnectError(f"the broker {broker_name} has no master at present")
    admin = Admin(instance=instance)
    config = (await admin.subscription_groups(address)).subscription_group_table.get(group)
    if config is None:
        config = SubscriptionGroupConfig(group_name=group)
        await admin.create_subscription_group(address, config)
    queues = max(1, config.retry_queue_nums)
    await admin.create_topic_on(
        address, TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
    )
    log.info("the group %s was made known on the broker %s", group, broker_name)
