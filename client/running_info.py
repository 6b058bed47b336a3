"""What a consumer tells an administrator about itself (client.md §4.12; class ConsumerRunningInfo)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..remoting.protocol.bodies.heartbeat import ConsumerData
from ..remoting.protocol.bodies.running_info import ConsumerRunningInfo, ProcessQueueInfo, RunningProperty
from ..remoting.protocol.codes import VERSION, version_name
from ..remoting.protocol.message import MessageQueue


def running_info(
    data: ConsumerData,
    queues: Mapping[MessageQueue, ProcessQueueInfo],
    name_servers: Sequence[str],
    started_ms: int,
    concurrency: int,
) -> ConsumerRunningInfo:
    """The answer to code 307. Rates per topic are not counted yet."""
    return ConsumerRunningInfo(
        properties={
            RunningProperty.NAMESERVER_ADDR: "".join(f"{address};" for address in name_servers),
            RunningProperty.CONSUME_TYPE: str(data.consume_type),
            RunningProperty.CONSUME_ORDERLY: "false",
            RunningProperty.THREADPOOL_CORE_SIZE: str(concurrency),
            RunningProperty.CLIENT_VERSION: version_name(VERSION),
            RunningProperty.CONSUMER_START_TIMESTAMP: str(started_ms),
            "consumerGroup": data.group_name,
            "messageModel": str(data.message_model),
            "consumeFromWhere": str(data.consume_from_where),
        },
        subscription_set=data.subscription_data_set,
        mq_table=dict(queues),
    )
