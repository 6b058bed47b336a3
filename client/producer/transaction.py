"""Transactions: a message that is delivered if and only if something local happened (client.md
§3.10; class TransactionMQProducer).

::

    async def check(message):                      # asked by a broker that did not hear the end
        done = await db.has(message.keys[0])
        return TransactionState.COMMIT if done else TransactionState.ROLLBACK

    async with TransactionProducer("orders", checker=check, namesrv="ns1:9876") as producer:
        async with producer.transaction(Message("Order", b"...", keys=["42"])):
            await db.insert(42)                    # raises: the message is rolled back

The broker stores the message, invisible, before the block begins. What is said at its end travels
without an answer: when it is lost, or the process dies, the broker asks a producer of the group,
this one or another: ``checker`` has the last word.

One file, though a long one: half message, end and check are one exchange with the broker.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Required, Self, Unpack

from ...remoting.errors import BrokerError, ConnectError, RemotingError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_id import parse_offset_message_id
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt
from ..cluster.master_watch import LONGEST_GAP_S
from ..errors import ClientStateError, ConfigError, HalfMessageUnsafe, MessageError
from ..handlers import awaited
from ..namespaces import with_namespace
from ..options import Settings, settings_of, takes
from ..usage_errors import check_handler, is_async
from ..user_code import UserCode
from ..user_threads import UserThreads
from .options import ProducerOptions
from .producer import Producer
from .queue_choice import QueueSelector
from .sending import SendResult, SendStatus

log: Final = logging.getLogger(__name__)

MAX_CHECKS_WAITING: Final = 2000
"""More are not answered; the broker asks again."""
_END_TIMEOUT_S: Final = 3.0
_SLOW_CHECK_S: Final = 60.0
"""As long as brokers wait until they ask again (``transactionCheckInterval``)."""
_MAX_REMARK: Final = 1000
"""Characters of an error that go to the broker with the word about a transaction."""


class TransactionState(Enum):
    """How a transaction ended."""

    COMMIT = 8
    """The message is delivered."""
    ROLLBACK = 12
    """It never is."""
    UNKNOWN = 0
    """Nobody can tell yet: the broker will ask."""


_TRACED_AS: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
"""The original's names of the states."""

Checker = Callable[[MessageExt], Awaitable[TransactionState] | TransactionState]
"""Tells how the transaction of a message ended. A plain function runs in a thread. Raises:
unknown."""
Execute = Callable[[Message], Awaitable[TransactionState]]
"""The local part of a transaction."""


class TransactionSendResult(NamedTuple):
    """Where the half message lies, and what became of it."""

    sent: SendResult
    state: TransactionState


class TransactionProducerOptions(ProducerOptions, total=False):
    """See ``TransactionProducer``."""

    checker: Required[Checker]
    check_concurrency: int
    allow_delay: bool


class TransactionSettings(Settings, frozen=True, kw_only=True):
    """See ``TransactionProducer``."""

    checker: Checker
    check_concurrency: int = 8
    allow_delay: bool = False

    def __post_init__(self) -> None:
        self.require_counts("check_concurrency")
        check_handler(self.checker, "the message of a transaction", role="checker")


class TransactionProducer(Producer):
    """A producer whose messages may depend on something local. ``send`` and the others are as in
    ``Producer``.

    ``checker`` is asked about transactions of the whole group, also those of other processes, but
    not about one that this producer has begun and not ended; at most ``check_concurrency`` calls at
    a time. ``allow_delay``: take messages with a delay level.
    Brokers of this package deliver them that long after the commit; those of Java lose them.
    """

    @takes(TransactionSettings)
    def __init__(self, group: str, **options: Unpack[TransactionProducerOptions]) -> None:
        """Other options are those of ``Producer``."""
        settings, others = settings_of(TransactionSettings, options)
        if others.get("idempotent"):
            raise ConfigError("a TransactionProducer cannot be idempotent: use a Producer for that")
        super().__init__(group, **others)
        self._checker = settings.checker
        self._allow_delay = settings.allow_delay
        threads = settings.check_concurrency
        self._slots = asyncio.Semaphore(threads)
        self._asked: dict[str, dict[str, CheckTransactionStateRequest]] = {}
        """By message that the checker is asked about: the newest question of each broker."""
        self._open: set[str] = set()
        """Ids of transactions of this producer that have begun and not ended."""
        self._threads = None if is_async(self._checker) else UserThreads(threads, f"check-{group}")

    async def start(self) -> None:
        """As in ``Producer``."""
        await super().start()
        self.instance.checkers[self.group] = self._check
        self._tasks.spawn(self._find_brokers(), name="brokers with transactions")

    async def stop(self) -> None:
        """As in ``Producer``. Brokers ask the others of the group from now on."""
        checkers = self.instance.checkers
        if checkers.get(self.group) == self._check:  # not another one's, where start() was refused
            del checkers[self.group]
        await super().stop()
        if self._threads is not None:
            self._threads.close()

    async def _find_brokers(self) -> None:
        """Every broker that ever had a transaction hears of this producer, also before it has sent
        anything: it may be the only one to ask about those that another process left.

        The original's find them by the route of TBW102 (``client.md`` §1.3), so only where topics
        are made by themselves.
        """
        routes = self.instance.routes
        while routes.cached(TopicName.TRANS_HALF) is None:
            try:
                await routes.refresh(TopicName.TRANS_HALF)
            except (RemotingError, BrokerError) as error:
                log.debug("brokers with transactions are not known yet error=%s", error)
            await self.instance.clock.sleep(routes.interval)

    # --- transactions
    # ----------------------------------------------------------------------------------------------

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> Transaction:
        """``async with``: the message is stored, invisible, before the block. Commits after it;
        rolls back when it raises.

        A block that is cancelled leaves the transaction unknown. Arguments and errors of entering
        as those of ``send``, and ``HalfMessageUnsafe``.
        """
        return Transaction(self, message, queue, selector, sharding_key, timeout)

    async def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> TransactionSendResult:
        """Store the message, invisible; ``await execute(message)``; end as it says. When it raises
        the state is unknown.

        A half message that is not stored as safely as asked is rolled back without a call of
        ``execute``.
        """
        transaction = self.transaction(
            message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
        )
        try:
            sent = await transaction.begin()
        except HalfMessageUnsafe:
            return TransactionSendResult(transaction.sent, TransactionState.ROLLBACK)
        state: TransactionState | None = None
        try:
            state = state_of(await awaited(execute(message)))
        finally:
            if state is None:
                await transaction.end(TransactionState.UNKNOWN, sys.exception())
        await transaction.end(state)
        return TransactionSendResult(sent, state)

    async def _send_half(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        timeout: float | None,
    ) -> SendResult:
        if not isinstance(message, Message):
            raise MessageError("a transaction is about one message, not about a list of them")
        if message.delay_level > 0 and not self._allow_delay:
            raise MessageError(
                "a broker of Java loses a half message with a delay level; "
                "TransactionProducer(allow_delay=True) when all brokers are of this package"
            )
        extra = {PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: self.group}
        outgoing = self._outgoing(message, extra)
        outgoing.sys_flag |= MessageSysFlag.TRANSACTION_PREPARED
        self._open.add(outgoing.msg_id)
        sent: SendResult | None = None
        try:
            sent = await self._send(outgoing, message, queue, selector, sharding_key, timeout)
            return sent
        finally:
            if sent is None:
                self._open.discard(outgoing.msg_id)

    async def _end(
        self,
        message: Message,
        sent: SendResult,
        state: TransactionState,
        reason: BaseException | None,
    ) -> None:
        """Tell the broker, oneway. What goes wrong is logged: the broker will ask."""
        self._open.discard(sent.msg_id)
        header = EndTransactionRequest(
            producer_group=self.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=parse_offset_message_id(sent.offset_msg_id).phy_offset,
            commit_or_rollback=state.value,
            msg_id=sent.msg_id,
            transaction_id=sent.transaction_id,
            bname=sent.queue.broker_name,
        )
        try:
            topic = with_namespace(sent.queue.topic, self.instance.namespace)
            remark = _remark("executeLocalTransactionBranch exception", reason)
            address = await self._say_to_master(sent.queue.broker_name, topic, header, remark)
            self.instance.outages.works(("end", self.group))
            if self._tracer is not None:
                told = _TRACED_AS[state]
                self._tracer.transaction_ended(
                    message, sent.msg_id, sent.transaction_id, told, address, from_check=False
                )
        except (RemotingError, BrokerError) as error:
            self.instance.outages.fails(
                log,
                ("end", self.group),
                "the broker was not told %s, it will ask msg_id=%s error=%s",
                state.name,
                sent.msg_id,
                error,
            )

    async def _say_to_master(
        self, broker_name: str, topic: str, header: EndTransactionRequest, remark: str | None
    ) -> str:
        """The address that heard it. Where there is no master to connect to, the half message is
        with whoever becomes it: the next one is waited for. Raises ``RemotingError``, and
        ``BrokerError`` of a name server."""
        clock, masters = self.instance.clock, self.instance.masters
        deadline = clock.monotonic() + _END_TIMEOUT_S
        while True:
            changes = self.instance.routes.changes
            try:
                address = await self.instance.master_address(broker_name, topic)
                await self._say(address, header, remark)
            except (ConnectError, BrokerError):
                left = deadline - clock.monotonic()
                if left <= 0:
                    raise
                if changes == self.instance.routes.changes:
                    await masters.changed(topic, min(left, LONGEST_GAP_S))
            else:
                return address

    # --- checks
    # ----------------------------------------------------------------------------------------------

    async def _check(
        self, request: CheckTransactionStateRequest, message: MessageExt, broker: str
    ) -> None:
        """A broker asks. The answer goes back to it, with the numbers that it named last: it asks
        again as long as the checker takes, and calls side by side would leave none for others."""
        msg_id = message.msg_id
        if msg_id in self._asked:
            self._asked[msg_id][broker] = request
            return
        if len(self._asked) >= MAX_CHECKS_WAITING:
            self.instance.outages.fails(
                log,
                ("too many checks", self.group),
                "too many checks, one is not answered group=%s msg_id=%s",
                self.group,
                msg_id,
            )
            return
        self.instance.outages.works(("too many checks", self.group))
        asked = self._asked[msg_id] = {broker: request}
        try:
            async with self._slots:
                tell_slow = partial(self._tell_slow, message)
                slow = self.instance.clock.call_later(_SLOW_CHECK_S, tell_slow)
                try:
                    state, failure = await self._ask_checker(message)
                finally:
                    slow.cancel()
        finally:
            del self._asked[msg_id]
        remark = _remark("checkLocalTransactionState exception", failure)
        for broker, request in asked.items():
            await self._answer(request, message, broker, state, remark)

    async def _answer(
        self,
        request: CheckTransactionStateRequest,
        message: MessageExt,
        broker: str,
        state: TransactionState,
        remark: str | None,
    ) -> None:
        header = EndTransactionRequest(
            producer_group=self.group,
            tran_state_table_offset=request.tran_state_table_offset,
            commit_log_offset=request.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message.msg_id,
            transaction_id=request.transaction_id,
        )
        try:
            await self._say(broker, header, remark)
            self.instance.outages.works(("check", self.group))
            if self._tracer is not None:
                told, its_id = _TRACED_AS[state], request.transaction_id
                self._tracer.transaction_ended(
                    message, message.msg_id, its_id, told, broker, from_check=True
                )
        except RemotingError as error:
            self.instance.outages.fails(
                log,
                ("check", self.group),
                "check not answered, the broker will ask again msg_id=%s error=%s",
                message.msg_id,
                error,
            )

    def _tell_slow(self, message: MessageExt) -> None:
        self.instance.outages.occurs(
            log,
            ("slow checker", self.group),
            "the checker takes over %.0f s, it keeps one of its places group=%s msg_id=%s",
            _SLOW_CHECK_S,
            self.group,
            message.msg_id,
        )

    async def _say(self, broker: str, header: EndTransactionRequest, remark: str | None) -> None:
        """Raises ``RemotingError``."""
        code, timeout = RequestCode.END_TRANSACTION, _END_TIMEOUT_S
        await self.instance.remoting.invoke_oneway(
            broker, code, header, timeout=timeout, remark=remark
        )

    async def _ask_checker(
        self, message: MessageExt
    ) -> tuple[TransactionState, BaseException | None]:
        """The state, unknown when the checker fails; and how it failed.

        One that this producer is still in the middle of is unknown, whatever the checker would say
        that looks for traces which the local part has not left yet: it may commit after all.
        """
        if message.msg_id in self._open:
            return TransactionState.UNKNOWN, None
        with UserCode() as code:
            if self._threads is None:
                return TransactionState(await self._checker(message)), None  # type: ignore[misc]
            return TransactionState(
                await awaited(await self._threads.call(self._checker, message))
            ), None
        error = code.failure()
        self.instance.outages.occurs(
            log,
            ("checker", self.group, type(error).__name__),
            "the checker failed, the transaction stays unknown group=%s msg_id=%s",
            self.group,
            message.msg_id,
            level=logging.ERROR,
            exc_info=error,
        )
        return TransactionState.UNKNOWN, error


def state_of(returned: object) -> TransactionState:
    """What the local part of a transaction has returned. Raises ``ConfigError`` for what is no
    state."""
    try:
        return TransactionState(returned)
    except ValueError:
        raise ConfigError(
            f"the local part of a transaction returns a TransactionState, not {returned!r}"
        ) from None


def _remark(what: str, error: BaseException | None) -> str | None:
    """An error as it is told to the broker, for whoever reads its side."""
    return None if error is None else f"{what}: {type(error).__name__}: {error}"[:_MAX_REMARK]


class Transaction:
    """One transaction, see ``TransactionProducer.transaction``. ``sent`` tells where the half
    message lies."""

    def __init__(
        self,
        producer: TransactionProducer,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        timeout: float | None,
    ) -> None:
        self.message: Final = message
        self.state: TransactionState | None = None
        """How it ended; ``None`` before the end."""
        self._producer = producer
        self._where = (queue, selector, sharding_key, timeout)
        self._sent: SendResult | None = None
        self._wanted = TransactionState.COMMIT

    @property
    def sent(self) -> SendResult:
        """Where the half message lies. Raises ``ClientStateError`` outside of ``async with``."""
        if self._sent is None:
            raise ClientStateError("this transaction has not begun: use it inside of 'async with'")
        return self._sent

    @property
    def msg_id(self) -> str:
        """The id of the message, also that of the transaction."""
        return self.sent.msg_id

    def rollback(self) -> None:
        """Roll back at the end of the block, without an error."""
        self._wanted = TransactionState.ROLLBACK

    def leave_unknown(self) -> None:
        """Do not decide at the end of the block: the broker will ask the checker."""
        self._wanted = TransactionState.UNKNOWN

    async def begin(self) -> SendResult:
        """Store the message, invisible; ``async with`` does it. Raises as
        ``TransactionProducer.transaction`` says."""
        if self._sent is not None:
            raise ClientStateError("a transaction is used once: make a new one")
        self._sent = sent = await self._producer._send_half(self.message, *self._where)
        if sent.status is not SendStatus.SEND_OK:
            await self.end(TransactionState.ROLLBACK)
            raise HalfMessageUnsafe(sent.msg_id, sent.status.name)
        return sent

    async def end(self, state: TransactionState, reason: BaseException | None = None) -> None:
        """Tell the broker, also the error that is the ``reason``; ``async with`` does it."""
        self.state = state
        await self._producer._end(self.message, self.sent, state, reason)

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        if error is None:
            await self.end(self._wanted)
        else:
            state = (
                TransactionState.ROLLBACK
                if isinstance(error, Exception)
                else TransactionState.UNKNOWN
            )
            await self.end(state, error)
