"""Getting one message to one of the brokers that can take it (client.md §3.3;
DefaultMQProducerImpl.sendDefaultImpl)."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection
from typing import Final, NamedTuple

from ...remoting.errors import BrokerError, ConnectError, RemotingError, RocketMQError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import SendMessageRequestV2
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import TopicName
from ..cluster.instance import ClientInstance
from ..cluster.master_watch import LONGEST_BACK_OFF_S, denies_mastership
from ..cluster.route_cache import TopicRoute, awaits_master, no_route
from ..errors import Attempt, NoRouteError
from ..namespaces import unwrap_queue, without_namespace
from ..options import vip_address
from .attempts import Patience, Tried
from .fast_path import FastPath
from .fault_latency import FaultLatency
from .hooks import SendContext, SendHooks, kind_of
from .queue_choice import RoundRobin
from .sending import (
    RETRY_CODES,
    Outgoing,
    SendResult,
    SendStatus,
    may_retry,
    send_result,
)

SEND_TIMEOUT: Final = 3.0
"""Seconds for a send in all, retries included, unless a program says otherwise."""


class DeliverySettings(NamedTuple):
    """How hard to try, and what a topic is like that does not exist yet."""

    attempts: int = 3
    retry_not_ok: bool = False
    """Also when a message was stored, but less safely than asked."""
    topic_queue_nums: int = 4
    template_topic: str = TopicName.AUTO_CREATE
    retry_codes: Collection[int] = RETRY_CODES
    patience: float = 0.0
    """Seconds from the begin of a send in which further attempts are made, whatever failed."""
    waits: bool = True
    """For brokers that cannot be reached; otherwise that is an attempt like others that fail, for
    whoever waits by rules of its own."""


class Delivery:
    """Chooses queues, tries again elsewhere, keeps to the time. Used by producers and for what
    consumers give back."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: DeliverySettings = DeliverySettings(),  # noqa: B008  (immutable)
        *,
        faults: FaultLatency | None = None,
        hooks: SendHooks | None = None,
    ) -> None:
        """``faults``: keep away from slow brokers."""
        self._instance = instance
        self._group = group
        self._attempts = settings.attempts
        self._retry_not_ok = settings.retry_not_ok
        self._topic_queue_nums = settings.topic_queue_nums
        self._template_topic = settings.template_topic
        self._retry_codes = settings.retry_codes
        self._may_wait = settings.waits
        self._patience = settings.patience
        self._faults = faults
        self._hooks = hooks
        self._looked_at = faults is not None or hooks is not None
        self._turns = RoundRobin(random.randrange(1 << 16))

    def fast_path(self, too_long: int) -> FastPath | None:
        """The fast path for plain messages of less than ``too_long`` bytes; None where no message
        of this producer is."""
        instance = self._instance
        if (
            self._looked_at
            or self._retry_not_ok
            or instance.vip_channel
            or instance.namespace is not None
        ):
            return None
        if not instance.remoting.sends_plain_json:
            return None
        header = self._header(
            Outgoing("", RequestCode.SEND_MESSAGE_V2, b"", "", ""), MessageQueue("", "", 0)
        )
        return FastPath(instance, header, self._turns, too_long, instance.remoting.credentials)

    async def publish_queues(
        self, topic: str, deadline: float | None = None
    ) -> tuple[MessageQueue, ...]:
        """Where messages of this topic can go; never empty. A group that elects its master is
        waited for until ``deadline`` (seconds of the monotonic clock). Raises ``NoRouteError``,
        ``RemotingError``, ``BrokerError``."""
        route = self._instance.routes.cached(topic)
        if route is None or not route.publish_queues:
            route = await self._awaited_route(topic, deadline)
        return route.publish_queues

    async def _awaited_route(self, topic: str, deadline: float | None) -> TopicRoute:
        instance = self._instance
        while True:
            route = instance.routes.cached(topic)
            if deadline is None or route is None or not awaits_master(route):
                try:
                    return await instance.routes.get_for_sending(
                        topic, self._template_topic, self._topic_queue_nums
                    )
                except NoRouteError:
                    route = instance.routes.cached(topic)
                    if deadline is None or route is None or not awaits_master(route):
                        raise
            if (left := deadline - instance.clock.monotonic()) <= 0:
                raise no_route(topic, route)
            await instance.masters.changed(topic, left)

    async def deliver(
        self,
        outgoing: Outgoing,
        bound: MessageQueue | None,
        timeout: float,
        *,
        failed: Attempt | None = None,
    ) -> SendResult:
        """Attempt after attempt until one broker has it, the attempts are used up, or ``timeout``
        (seconds) is.

        A message ``bound`` to a queue has one attempt. Where no connection can be made nothing was
        sent, nor, as far as it can tell, where a broker with replicas says that it is not the
        master. That uses up time only: a broker that is restarted is waited for, a group that
        elects another master too. With patience there are further attempts, also of what is bound.
        ``failed``: an attempt was made before, in the same time. Raises ``SendFailed``,
        ``SendTimedOut``, ``NoRouteError``, ``BrokerError``, and ``RemotingError`` when the route is
        not known and no name server answers.
        """
        clock, topic = self._instance.clock, outgoing.topic
        started = clock.monotonic()
        tried = Tried()
        not_ok: SendResult | None = None
        avoid: str | None = None
        left = self._attempts if bound is None else 1
        patience = Patience(clock, started + min(self._patience, timeout))
        if failed is not None:
            if not may_retry(failed.error, self._retry_codes):
                raise failed.error
            started -= failed.seconds
            avoid = failed.broker_name
            waits = self._waits(topic, avoid, failed.error) or isinstance(
                failed.error, ConnectError
            )
            left -= tried.failed(failed, 0.0, waits=waits)
        while left > 0 or (not_ok is None and await patience.another()):
            queue = await self._next(topic, bound, avoid, started + timeout, tried)
            began = clock.monotonic() - started
            if queue is None or began >= timeout:
                break
            try:
                result = await self._attempt(outgoing, queue, timeout - began, first=avoid is None)
            except (RemotingError, BrokerError) as error:
                if not may_retry(error, self._retry_codes):
                    if not_ok is not None:
                        return not_ok
                    raise
                waits = self._waits(topic, queue.broker_name, error) and not_ok is None
                attempt = self._failed(queue, error, clock.monotonic() - started - began)
                left -= tried.failed(attempt, began, waits=waits)
            else:
                if not self._retry_not_ok or result.status is SendStatus.SEND_OK:
                    return result
                not_ok = result
                left -= 1
            avoid = queue.broker_name
        if not_ok is not None:
            return not_ok
        raise tried.error(topic, in_time=clock.monotonic() - started < timeout)

    async def deliver_oneway(
        self, outgoing: Outgoing, bound: MessageQueue | None, timeout: float
    ) -> None:
        """Write it to one broker; one that cannot be connected to is waited for, as in ``deliver``.
        Raises ``NoRouteError``, ``RemotingError``, ``BrokerError`` (of the name server)."""
        clock = self._instance.clock
        deadline = clock.monotonic() + timeout
        avoid: str | None = None
        while True:
            queue = await self._reachable(outgoing.topic, bound, avoid, deadline)
            left = deadline - clock.monotonic()
            try:
                return await self._write(outgoing, queue, max(left, 0.001))
            except ConnectError as error:
                avoid = queue.broker_name
                if not self._waits(outgoing.topic, avoid, error) or left <= 0:
                    raise

    async def _write(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> None:
        address = self._instance.vip(
            await self._instance.master_address(queue.broker_name, outgoing.topic)
        )
        context = self._before(outgoing, queue, address)
        try:
            await self._instance.remoting.invoke_oneway(
                address,
                outgoing.code,
                self._header(outgoing, queue),
                outgoing.body,
                timeout=timeout,
            )
        except RemotingError as error:
            self._after(outgoing, context, None, error)
            raise
        if context is not None:
            context.oneway = True
            self._after(outgoing, context, None, None)

    def _failed(self, queue: MessageQueue, error: RocketMQError, seconds: float) -> Attempt:
        address = self._instance.routes.master(queue.broker_name) or ""
        return Attempt(queue.broker_name, address, error, seconds)

    async def _next(
        self,
        topic: str,
        bound: MessageQueue | None,
        avoid: str | None,
        deadline: float,
        tried: Tried,
    ) -> MessageQueue | None:
        """``_reachable``; None when it fails, where attempts that failed tell more."""
        try:
            return await self._reachable(topic, bound, avoid, deadline)
        except (NoRouteError, RemotingError):
            if not tried.attempts:
                raise
            return None

    async def _reachable(
        self, topic: str, bound: MessageQueue | None, avoid: str | None, deadline: float
    ) -> MessageQueue:
        """A queue whose broker may be asked at once; it is waited for, at most until ``deadline``,
        where there is none."""
        while True:
            queues = (bound,) if bound is not None else await self.publish_queues(topic, deadline)
            queue = bound or self._choose(queues, avoid)
            if self._back_off(queue.broker_name) <= 0:
                return queue
            waits = [self._back_off(each.broker_name) for each in queues]
            if min(waits) <= 0:
                others = zip(queues, waits, strict=True)
                return self._choose(tuple(each for each, wait in others if wait <= 0), avoid)
            left = deadline - self._instance.clock.monotonic()
            if left <= 0 or not self._may_wait:
                return queue
            await self._instance.masters.changed(topic, min(left, *waits))

    def _waits(self, topic: str, broker_name: str, error: RocketMQError) -> bool:
        """Nothing was stored, and before the next attempt there time has to pass. What the name
        server says is asked for meanwhile."""
        instance = self._instance
        if isinstance(error, BrokerError):
            if not denies_mastership(error):
                return False
            instance.masters.doubt(topic)
            if not instance.routes.has_replicas(broker_name):
                return False
            instance.masters.refused(error.address)
            return self._may_wait
        instance.masters.doubt(topic)
        return (
            self._may_wait and isinstance(error, ConnectError) and self._back_off(broker_name) > 0
        )

    def _back_off(self, broker_name: str) -> float:
        instance = self._instance
        address = instance.routes.master(broker_name)
        if address is None:
            return LONGEST_BACK_OFF_S if instance.routes.has_replicas(broker_name) else 0.0
        back_off = instance.remoting.back_off(address)
        masters = instance.masters
        return max(back_off, masters.back_off(address)) if masters.refusals else back_off

    def _choose(self, queues: tuple[MessageQueue, ...], avoid: str | None) -> MessageQueue:
        if self._faults is None:
            return self._turns.choose(queues, avoid)
        return self._faults.choose(queues, self._instance.clock.monotonic() * 1000)

    async def _attempt(
        self, outgoing: Outgoing, queue: MessageQueue, timeout: float, *, first: bool
    ) -> SendResult:
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            address = await self._instance.master_address(queue.broker_name, outgoing.topic)
        if self._instance.vip_channel and first:
            address = vip_address(address)
        if self._looked_at:
            return await self._watched_attempt(outgoing, queue, address, timeout)
        return await self._exchange(outgoing, queue, address, timeout)

    async def _exchange(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, timeout: float
    ) -> SendResult:
        answer = await self._instance.remoting.invoke(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )
        return send_result(answer, outgoing.msg_id, queue, address)

    # --- attempts that somebody looks at
    # ----------------------------------------------------------------------------

    async def _watched_attempt(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, timeout: float
    ) -> SendResult:
        clock = self._instance.clock
        context = self._before(outgoing, queue, address)
        began = clock.monotonic()
        result: SendResult | None = None
        try:
            result = await self._exchange(outgoing, queue, address, timeout)
            return result
        finally:
            failure = sys.exception() if result is None else None
            now = clock.monotonic()
            if self._faults is not None and (
                result is not None or isinstance(failure, (RemotingError, BrokerError))
            ):
                self._faults.update(
                    queue.broker_name, (now - began) * 1000, now * 1000, failed=failure is not None
                )
            if context is not None:
                context.seconds = now - began
                self._after(outgoing, context, result, failure)

    def _before(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendContext | None:
        if self._hooks is None or not outgoing.messages:
            return None
        namespace = self._instance.namespace
        context = SendContext(
            group=without_namespace(self._group, namespace),
            messages=outgoing.messages,
            kind=kind_of(
                outgoing.messages,
                half=bool(outgoing.sys_flag & MessageSysFlag.TRANSACTION_PREPARED),
            ),
            is_batch=outgoing.is_batch,
            queue=unwrap_queue(queue, namespace),
            broker_address=address,
            body_size=len(outgoing.body),
            started_ms=self._instance.clock.time_ms(),
        )
        self._hooks.before(context)
        return context

    def _after(
        self,
        outgoing: Outgoing,
        context: SendContext | None,
        result: SendResult | None,
        error: BaseException | None,
    ) -> None:
        if context is not None and self._hooks is not None:
            context.result, context.error = result, error
            self._hooks.after(context, outgoing.watched)

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
