"""Getting one message to one of the brokers that can take it (client.md §3.3; DefaultMQProducerImpl.sendDefaultImpl)."""

from __future__ import annotations

import random

from ..remoting.errors import BrokerError, RemotingError
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.send import SendMessageRequestV2
from ..remoting.protocol.message import MessageQueue
from ..remoting.protocol.topic_names import TopicName
from .errors import Attempt, SendFailed, SendTimedOut
from .instance import ClientInstance
from .queue_choice import RoundRobin
from .sending import Outgoing, SendResult, SendStatus, may_retry, send_result

DEFAULT_ATTEMPTS = 3
DEFAULT_TOPIC_QUEUE_NUMS = 4


class Delivery:
    """Chooses queues, tries again elsewhere, keeps to the time. Used by producers and for what consumers give back."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        *,
        attempts: int = DEFAULT_ATTEMPTS,
        retry_not_ok: bool = False,
        topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS,
        template_topic: str = TopicName.AUTO_CREATE,
    ) -> None:
        self._instance = instance
        self._group = group
        self._attempts = attempts
        self._retry_not_ok = retry_not_ok
        self._topic_queue_nums = topic_queue_nums
        self._template_topic = template_topic
        self._turns = RoundRobin(random.randrange(1 << 16))

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Where messages of this topic can go; never empty. Raises ``NoRouteError``, ``RemotingError``, ``BrokerError``."""
        routes = self._instance.routes
        route = routes.cached(topic)
        if route is None or not route.publish_queues:
            route = await routes.get_for_sending(topic, self._template_topic, self._topic_queue_nums)
        return route.publish_queues

    async def deliver(self, outgoing: Outgoing, bound: MessageQueue | None, timeout: float) -> SendResult:
        """Attempt after attempt until one broker has it, the attempts are used up, or ``timeout`` (seconds) is.

        A message ``bound`` to a queue has one attempt. Raises ``SendFailed``, ``SendTimedOut``, ``NoRouteError``,
        ``BrokerError``, and ``RemotingError`` when the route is not known and no name server answers.
        """
        clock = self._instance.clock
        started = clock.monotonic()
        deadline = started + timeout
        failures: list[Attempt] = []
        not_ok: SendResult | None = None
        avoid: str | None = None
        for _ in range(self._attempts if bound is None else 1):
            queue = bound or self._turns.choose(await self.publish_queues(outgoing.topic), avoid)
            left = deadline - clock.monotonic()
            if left <= 0:
                break
            try:
                result = await self._attempt(outgoing, queue, left)
            except (RemotingError, BrokerError) as error:
                if not may_retry(error):
                    if not_ok is not None:
                        return not_ok
                    raise
                failures.append(self._failed(queue, error, timeout - left, clock.monotonic() - started))
            else:
                if result.status is SendStatus.SEND_OK or not self._retry_not_ok:
                    return result
                not_ok = result
            avoid = queue.broker_name
        if not_ok is not None:
            return not_ok
        last = failures[-1].error if failures else None
        in_time = clock.monotonic() < deadline and not isinstance(last, TimeoutError)
        raise (SendFailed if in_time else SendTimedOut)(outgoing.topic, tuple(failures)) from last

    async def deliver_oneway(self, outgoing: Outgoing, bound: MessageQueue | None, timeout: float) -> None:
        """Write it to one broker. Raises ``NoRouteError``, ``RemotingError``, ``BrokerError`` (of the name server)."""
        queue = bound or self._turns.choose(await self.publish_queues(outgoing.topic))
        address = await self._instance.master_address(queue.broker_name, outgoing.topic)
        await self._instance.remoting.invoke_oneway(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )

    def _failed(self, queue: MessageQueue, error: RemotingError | BrokerError, began: float, ended: float) -> Attempt:
        address = self._instance.routes.master(queue.broker_name) or ""
        return Attempt(queue.broker_name, address, error, ended - began)

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            address = await self._instance.master_address(queue.broker_name, outgoing.topic)
        answer = await self._instance.remoting.invoke(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )
        return send_result(answer, outgoing, queue, address)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestV2:
        return SendMessageRequestV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=self._template_topic,
            default_topic_queue_nums=self._topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self._instance.clock.time_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.code is RequestCode.SEND_BATCH_MESSAGE,
            bname=queue.broker_name,
        )
