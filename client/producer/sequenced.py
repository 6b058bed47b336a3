"""Getting a message to its queue exactly once: the delivery of an idempotent producer.

A message waits for its turn at a queue (``queue_turns.py``), gets the queue's next number
(``sequences.py``), and is sent again, with the same number, to the same queue, until somebody says
what became of it or the time is over. It may go to another queue only as long as it is certain that
nothing of it has arrived.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from typing import Final

from ...remoting.errors import BrokerError, ClientClosedError, RemotingError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import SequenceHelloRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ..cluster.instance import ClientInstance
from ..errors import (
    Attempt,
    ConfigError,
    IdempotenceNotSupported,
    NoRouteError,
    SendFailed,
    SequenceFenced,
)
from .attempts import Tried
from .delivery import Delivery, DeliverySettings
from .fast_path import FastPath
from .hooks import SendHooks
from .queue_turns import QueueTurns
from .sending import Outgoing, SendResult, send_result
from .sequences import (
    AGAIN,
    STORED,
    TYPED,
    Numbered,
    QueueSequence,
    Refused,
    UncheckedError,
    check_sequenced,
    checked,
    count_of,
    may_be_stored,
)

_SHORTEST_ATTEMPT_S: Final = 1.0
_ATTEMPTS_IN_TIME: Final = 3
"""So many that are not answered fit into the time for a send, if that is long enough."""
_FIRST_GAP_S: Final = 0.02
_LONGEST_GAP_S: Final = 0.5
"""Between attempts, from the second failure on, where nothing says when the next one makes
sense."""


class _Sending:
    """One message, or list of messages, on its way."""

    def __init__(
        self, outgoing: Outgoing, bound: MessageQueue | None, began: float, timeout: float
    ) -> None:
        self.outgoing = outgoing
        self.topic = outgoing.topic
        self.count = count_of(outgoing)
        self.bound = bound
        self.began = began
        self.deadline = began + timeout
        self.patience = max(_SHORTEST_ATTEMPT_S, timeout / _ATTEMPTS_IN_TIME)
        self.tried = Tried()
        self.avoid: set[str] = set()
        """Brokers that will not have it."""
        self.again = False
        """It had its turn at another queue."""
        self.in_doubt = False
        self.has_new_id = False
        """Its queue has got another id on its behalf."""
        self.gap = 0.0

    @property
    def may_move(self) -> bool:
        """To another queue."""
        return self.bound is None and not self.in_doubt

    def error(self, *, in_time: bool) -> SendFailed:
        return self.tried.error(
            self.topic, in_time=in_time, told=self._fate, in_doubt=self.in_doubt
        )

    def refused(self, kind: Refused) -> SendFailed:
        told = f"{self._fate}; {kind.advice}"
        return kind(self.topic, self.tried.attempts, told, in_doubt=self.in_doubt)

    @property
    def _fate(self) -> str:
        if self.in_doubt:
            return (
                "the message may be stored or not; if it is not yet, it will not be once the next "
                "message to its queue is"
            )
        return "the message is not stored"


class SequencedDelivery(Delivery):
    """As ``Delivery``, but a lost answer never doubles a message."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: DeliverySettings,
        *,
        hooks: SendHooks | None = None,
        producer_id: str | None = None,
    ) -> None:
        """``producer_id``: a secret that no other producer has. Default: a random one."""
        super().__init__(instance, group, settings, hooks=hooks)
        self._monotonic = instance.clock.monotonic
        self._ids = map(f"{producer_id or os.urandom(16).hex()}-{{}}".format, itertools.count())
        self._sequences: dict[MessageQueue, QueueSequence] = {}
        self._places = QueueTurns(self._candidates)

    def fast_path(self, too_long: int) -> FastPath | None:
        """None: every message takes a number."""
        return None

    async def deliver_oneway(
        self, outgoing: Outgoing, bound: MessageQueue | None, timeout: float
    ) -> None:
        """Raises ``ConfigError``."""
        raise ConfigError(
            "an idempotent producer waits for answers: send, or send_oneway with another one"
        )

    async def deliver(
        self,
        outgoing: Outgoing,
        bound: MessageQueue | None,
        timeout: float,
        *,
        failed: Attempt | None = None,
    ) -> SendResult:
        """Attempt after attempt until the message is stored, a broker refuses it, or ``timeout``
        (seconds) is over.

        Raises ``MessageError`` and ``ConfigError`` for what cannot have a sequence,
        ``SequenceError``, ``IdempotenceNotSupported``, and what ``Delivery.deliver`` raises.
        """
        check_sequenced(outgoing, bound)
        sending = _Sending(outgoing, bound, self._monotonic(), timeout)
        while (queue := await self._turn(sending)) is not None:
            try:
                result = await self._in_turn(sending, queue)
            finally:
                self._places.release(queue)
            if result is not None:
                return result
            sending.again = True
        raise sending.error(in_time=self._monotonic() < sending.deadline)

    # --- whose turn it is
    # ----------------------------------------------------------------------------------------------

    async def _turn(self, sending: _Sending) -> MessageQueue | None:
        """The queue that it may go to now. None: the time is over, or nobody will have it."""
        if sending.bound is None:
            try:
                queues = await self.publish_queues(sending.topic, sending.deadline)
            except (NoRouteError, RemotingError):
                if not sending.tried.attempts:
                    raise
                return None
            if all(queue.broker_name in sending.avoid for queue in queues):
                return None
        left = sending.deadline - self._monotonic()
        if left <= 0:
            return None
        wanted = sending.topic, sending.bound, sending.avoid
        if (free := self._places.take(*wanted)) is not None:
            return free
        try:
            async with asyncio.timeout(left):
                return await self._places.wait(*wanted, again=sending.again)
        except TimeoutError:
            return None

    def _candidates(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of brokers that may be asked at once; all, where there are none."""
        route = self._instance.routes.cached(topic)
        queues = route.publish_queues if route is not None else ()
        names = {queue.broker_name for queue in queues}
        if away := {name for name in names if self._back_off(name) > 0}:
            queues = tuple(q for q in queues if q.broker_name not in away) or queues
        start = self._turns.next() % max(1, len(queues))
        return queues[start:] + queues[:start]

    async def _ready(self, sending: _Sending, queue: MessageQueue) -> bool:
        """Wait until the queue's broker may be asked. False: it may go elsewhere now, or the time
        is over."""
        while (left := sending.deadline - self._monotonic()) > 0:
            if queue.broker_name in sending.avoid:
                return False
            wait = self._back_off(queue.broker_name)
            if wait <= 0:
                return True
            if sending.may_move:
                others = [
                    self._back_off(each.broker_name)
                    for each in await self.publish_queues(sending.topic, sending.deadline)
                    if each.broker_name not in sending.avoid
                ]
                wait = min([wait, *others])
                if wait <= 0:
                    return False
            await self._instance.masters.changed(sending.topic, min(left, wait))
            self._places.serve(sending.topic)
        return False

    # --- in turn
    # ----------------------------------------------------------------------------------------------

    async def _in_turn(self, sending: _Sending, queue: MessageQueue) -> SendResult | None:
        """Until it is decided. None: the time is over, or it may go elsewhere."""
        sequence = self._sequences.get(queue)
        if sequence is None:
            sequence = QueueSequence(next(self._ids))
            self._sequences[queue] = sequence
        try:
            while await self._ready(sending, queue):
                began = self._monotonic()
                try:
                    return await self._once(sending, queue, sequence)
                except (RemotingError, BrokerError, UncheckedError) as error:
                    self._judge(sending, queue, sequence, error, began)
                    if not self._waits(sending.topic, queue.broker_name, error):
                        await self._pause(sending)
            return None
        finally:
            if sending.in_doubt:
                sequence.doubted(sending.count)

    async def _once(
        self, sending: _Sending, queue: MessageQueue, sequence: QueueSequence
    ) -> SendResult:
        """One attempt. Raises what ``_attempt`` does, and ``SequenceFenced``."""
        address = await self._instance.master_address(queue.broker_name, sending.topic)
        if sequence.is_forgotten:
            if sequence.epoch:  # what is late of it shall not find a broker that knows nothing
                await self._hello(sending, sequence, address, sequence.epoch)
            sequence.renew(next(self._ids))
        if sequence.greeted != address:
            await self._hello(sending, sequence, address)
        numbered = sequence.put_on(sending.outgoing)
        first = not sending.tried.attempts
        try:
            result = await self._attempt(numbered, queue, self._seconds(sending), first=first)
        except BaseException as error:
            sending.in_doubt |= numbered.written and may_be_stored(error)
            raise
        if result.repeated and not sending.in_doubt:  # it cannot be a copy of this one
            sequence.renew(next(self._ids))
            raise sending.refused(SequenceFenced)
        sequence.stored(sending.count)
        sending.in_doubt = False
        return result

    async def _hello(
        self, sending: _Sending, sequence: QueueSequence, address: str, epoch: int = 0
    ) -> None:
        """``epoch``: what comes late of earlier ones is refused."""
        answer = await self._instance.remoting.invoke(
            address,
            RequestCode.SEND_SEQUENCE_HELLO,
            SequenceHelloRequest(producer_id=sequence.producer_id, epoch=epoch),
            timeout=self._seconds(sending),
        )
        if epoch and answer.code in STORED:
            return  # less safely than the broker was told to, as messages may be
        sequence.welcome(address, answer.check(address).header.now_ms)

    def _seconds(self, sending: _Sending) -> float:
        """For one attempt."""
        return min(max(0.001, sending.deadline - self._monotonic()), sending.patience)

    async def _exchange(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, timeout: float
    ) -> SendResult:
        assert isinstance(outgoing, Numbered)
        outgoing.written = True
        answer = await self._instance.remoting.invoke(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )
        result = send_result(answer, outgoing.msg_id, queue, address)
        return checked(result, answer.ext_fields.get("sequence"), address)

    def _judge(
        self,
        sending: _Sending,
        queue: MessageQueue,
        sequence: QueueSequence,
        error: RemotingError | BrokerError | UncheckedError,
        began: float,
    ) -> None:
        """What an attempt that failed means for the message and its queue. Raises what ends the
        send."""
        attempt = self._failed(queue, error, self._monotonic() - began)
        sending.tried.failed(attempt, began - sending.began, waits=True)
        if isinstance(error, UncheckedError):
            raise sending.refused(IdempotenceNotSupported)
        if not isinstance(error, BrokerError):
            if isinstance(error, ClientClosedError):
                raise sending.error(in_time=True)
            return
        code = error.code
        if code == ResponseCode.SEQUENCES_NOT_READY:
            sequence.greeted = None
        elif code in TYPED:
            self._refused(sending, sequence, error)
        elif sending.in_doubt or code in AGAIN:
            pass  # whoever is asked next may know
        elif code in self._retry_codes and sending.bound is None:
            sending.avoid.add(queue.broker_name)
        else:
            raise error

    def _refused(self, sending: _Sending, sequence: QueueSequence, error: BrokerError) -> None:
        """A typed refusal. Raises it, unless another id helps."""
        code = error.code
        if code == ResponseCode.SEQUENCE_UNKNOWN:
            sequence.is_forgotten = True
            if not sending.in_doubt and not sending.has_new_id:
                sending.has_new_id = True
                return
        elif code == ResponseCode.SEQUENCE_FENCED:
            sequence.renew(next(self._ids))
        elif code == ResponseCode.SEQUENCE_GAP and not sending.in_doubt:
            sequence.fence()  # the next one may leave numbers out
        raise sending.refused(TYPED[code]) from error

    async def _pause(self, sending: _Sending) -> None:
        self._places.serve(sending.topic)
        gap, sending.gap = sending.gap, min(2 * sending.gap or _FIRST_GAP_S, _LONGEST_GAP_S)
        left = sending.deadline - self._monotonic()
        if gap and left > 0:
            await self._instance.clock.sleep(min(gap, left))
