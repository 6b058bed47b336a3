"""Bringing chunks with numbers to their queues: tried again until a broker says that it has them,
with the same number each time, so that they are stored once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from ...client.cluster.instance import ClientInstance
from ...client.errors import SendFailed
from ...client.namespaces import with_namespace
from ...client.producer.delivery import Delivery, DeliverySettings
from ...client.producer.sending import Outgoing, SendResult, SendStatus, send_result
from ...client.producer.sequences import UncheckedError, checked, numbered
from ...remoting.errors import BrokerError, RemotingError, RocketMQError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import SequenceHelloRequest, SequenceHelloResponse
from ...remoting.protocol.message.message_queue import MessageQueue
from .manifest import Placed
from .sink_delivery import Deliverer, NotSafe, new_deliverer, told_what_to_do
from .sink_options import SinkOptions
from .staging import ANEW

__all__ = ["NotExactlyOnceError", "NumberedDeliverer"]

log: Final = logging.getLogger(__name__)

_HELLO_S: Final = 3.0
_FINAL: Final = {
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "it does not know sequences (a broker of the original "
    "does not): guarantee=exactly_once cannot be had there, at_least_once with dedup ids can",
    ResponseCode.SEQUENCE_UNKNOWN: "it has forgotten what this batch has stored there "
    "(sendSequenceExpireMillis, or the end of its log was lost): see what of the batch is in the "
    f"topic, then {ANEW}",
    ResponseCode.SEQUENCE_GAP: "rows in front of these are not stored there any more (its log has "
    "lost its end): they are sent again when the query, or the write, is started again",
    ResponseCode.SEQUENCE_FENCED: "a later batch of this query has been there: another driver runs "
    "the same query, or its checkpoint was set back; to have batches once more that are in the "
    f"topic, {ANEW}",
    ResponseCode.SEQUENCES_FULL: "it remembers as many producers as it may: raise maxSendSequences",
}


class NotExactlyOnceError(RocketMQError):
    """A broker cannot say of rows whether it has them; the text says what to do."""


class _Checked(Delivery):
    """Attempts whose answers say that the broker has looked whether it has the rows."""

    async def _exchange(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, timeout: float
    ) -> SendResult:
        answer = await self._instance.remoting.invoke(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )
        result = send_result(answer, outgoing.msg_id, queue, address)
        return checked(result, answer.ext_fields.get("sequence"), address)


class NumberedDeliverer:
    """For one producer group, through a running ``ClientInstance``."""

    def __init__(self, instance: ClientInstance, options: SinkOptions, plain: Deliverer) -> None:
        self._instance = instance
        self._options = options
        self._plain = plain
        self._delivery = _Checked(
            instance,
            with_namespace(options.group, instance.namespace),
            DeliverySettings(attempts=1, waits=False),
        )
        self._greeted_at: set[str] = set()
        """Addresses of brokers that check sequences, of those that were asked."""

    @classmethod
    async def new(cls, instance: ClientInstance, options: SinkOptions) -> NumberedDeliverer:
        """Heartbeats tell brokers of the group."""
        return cls(instance, options, await new_deliverer(instance, options))

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Where rows of a topic can go now."""
        return await self._plain.queues(topic)

    async def greet(
        self, producer_id: str, topics: Mapping[str, str], needed: Collection[str]
    ) -> dict[str, int]:
        """Ask brokers whether they check sequences, and what time it is there; ``topics``: by
        broker, one that it has. Who does not answer is waited for where it is ``needed``, or where
        nobody answers, and left out otherwise. Raises ``NotExactlyOnceError``,
        ``DeliveryTimeoutError``."""
        found = await asyncio.gather(
            *(self._try_to_greet(producer_id, name, topic) for name, topic in topics.items())
        )
        begun = {name: ms for name, ms in zip(topics, found, strict=True) if ms is not None}
        for name, topic in topics.items():
            if name not in begun and (name in needed or not begun):
                begun[name] = await self._greeted(producer_id, name, topic)
        if missing := topics.keys() - begun.keys():
            log.warning("brokers do not answer, rows go to others: %s", ", ".join(sorted(missing)))
        return begun

    async def _try_to_greet(self, producer_id: str, broker_name: str, topic: str) -> int | None:
        try:
            return await self._hello(producer_id, broker_name, topic)
        except (RemotingError, BrokerError, SendFailed) as error:
            log.info("no answer yet broker=%s error=%s", broker_name, error)
            return None

    async def _greeted(self, producer_id: str, broker_name: str, topic: str) -> int:
        return await self._plain.patience.until_done(
            topic,
            f"the broker {broker_name}",
            lambda _left_s: self._hello(producer_id, broker_name, topic),
        )

    async def _hello(self, producer_id: str, broker_name: str, topic: str) -> int:
        own = with_namespace(topic, self._instance.namespace)
        address = await self._instance.master_address(broker_name, own)
        answer = await self._instance.remoting.invoke(
            address,
            RequestCode.SEND_SEQUENCE_HELLO,
            SequenceHelloRequest(producer_id=producer_id),
            timeout=_HELLO_S,
        )
        if answer.code in _FINAL:
            raise _refused(broker_name, answer.code)
        header = answer.check(address).header
        assert isinstance(header, SequenceHelloResponse)
        self._greeted_at.add(address)
        return header.now_ms

    async def deliver(self, placed: Placed) -> None:
        """Return when its queue has it, once. Raises ``DeliveryTimeoutError``, ``NotSafe``,
        ``NotExactlyOnceError``, ``TooLongError``, ``BrokerError`` for a refusal that would be the
        same again."""
        outgoing = numbered(await self._plain.outgoing(placed.chunk), placed.sequence)
        queue, topic = placed.queue, placed.chunk.topic

        async def attempt(left_s: float) -> SendResult:
            timeout = min(self._options.send_timeout_s, left_s)
            # One that has taken over, or is there when a batch is repeated, may not check them.
            address = await self._instance.master_address(queue.broker_name, outgoing.topic)
            if address not in self._greeted_at:
                await self._hello(placed.sequence.producer_id, queue.broker_name, topic)
            while True:
                try:
                    return await self._delivery.deliver(outgoing, queue, timeout)
                except BrokerError as error:
                    if error.code != ResponseCode.SEQUENCES_NOT_READY:
                        raise
                await self._hello(placed.sequence.producer_id, queue.broker_name, topic)

        try:
            with told_what_to_do(placed.chunk):
                result = await self._plain.patience.until_done(
                    outgoing.topic, f"the broker {queue.broker_name}", attempt
                )
        except BrokerError as error:
            if error.code in _FINAL:
                raise _refused(queue.broker_name, error.code) from error
            raise
        except UncheckedError as error:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            raise _refused(queue.broker_name, code) from error
        if self._options.require_send_ok and result.status is not SendStatus.SEND_OK:
            raise NotSafe(outgoing.topic, result.status)


def _refused(broker_name: str, code: int) -> NotExactlyOnceError:
    why = _FINAL[ResponseCode(code)]
    return NotExactlyOnceError(f"the broker {broker_name} refuses rows of a batch: {why}")
