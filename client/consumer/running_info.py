"""What a consumer tells an administrator about itself (client.md §4.12; classes
ConsumerRunningInfo, ConsumeMessageDirectlyResult)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...remoting.protocol.bodies.heartbeat import ConsumerData
from ...remoting.protocol.bodies.running_info import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
    RunningProperty,
)
from ...remoting.protocol.codes import VERSION, version_name
from ...remoting.protocol.message.message_queue import MessageQueue
from ..errors import RetryLater, SuspendQueue


def running_info(
    data: ConsumerData,
    queues: Mapping[MessageQueue, ProcessQueueInfo],
    name_servers: Sequence[str],
    started_ms: int,
    concurrency: int,
    *,
    ordered: bool = False,
    status: Mapping[str, ConsumeStatus] | None = None,
    options: Mapping[str, object] | None = None,
) -> ConsumerRunningInfo:
    """The answer to code 307. ``options`` are further properties, by the original's names."""
    return ConsumerRunningInfo(
        properties={
            RunningProperty.NAMESERVER_ADDR: "".join(f"{address};" for address in name_servers),
            RunningProperty.CONSUME_TYPE: str(data.consume_type),
            RunningProperty.CONSUME_ORDERLY: str(ordered).lower(),
            RunningProperty.THREADPOOL_CORE_SIZE: str(concurrency),
            RunningProperty.CLIENT_VERSION: version_name(VERSION),
            RunningProperty.CONSUMER_START_TIMESTAMP: str(started_ms),
            "consumerGroup": data.group_name,
            "messageModel": str(data.message_model),
            "consumeFromWhere": str(data.consume_from_where),
            **{name: str(value) for name, value in (options or {}).items()},
        },
        subscription_set=data.subscription_data_set,
        mq_table=dict(queues),
        status_table=dict(status or {}),
    )


def direct_result(
    failure: BaseException | None, spent_ms: int, *, ordered: bool = False
) -> ConsumeMessageDirectlyResult:
    """The answer to code 309: what a handler made of a message outside of its turn."""
    if failure is None:
        result, remark = CMResult.CR_SUCCESS, None
    elif isinstance(failure, (RetryLater, SuspendQueue)):
        result, remark = CMResult.CR_LATER, None
    else:
        result, remark = CMResult.CR_THROW_EXCEPTION, f"{type(failure).__name__}: {failure}"
    return ConsumeMessageDirectlyResult(
        order=ordered, consume_result=result, remark=remark, spent_time_mills=spent_ms
    )
