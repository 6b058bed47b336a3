"""Asking producers how their transactions ended (classes TransactionalMessageCheckService,
AbstractTransactionalMessageCheckListener; ``broker-services.md`` §5.4, §5.5).

A round goes over the undecided half messages from the oldest to the first one that is too young to
be asked for. Each gets a copy at the end of the half queue; when the copies are safe (on the disk,
or committed by a group) and the
progress is in the file of consumer offsets, their producers are asked about the copies. In this
order a crash at any point neither loses a half message nor has two of them decided for one
transaction.

What a turn of the loop does is bounded: there may be millions of half messages of a producer that
is gone.

One file, though a long one, for one idea: what is undecided, found out at start and asked for in
rounds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from ...remoting.clock import Clock, pause
from ...remoting.errors import RemotingError
from ...remoting.outages import Outages
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.transaction import CheckTransactionStateRequest
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.salvage import read_salvaged
from ...store.model.config import BrokerRole
from ...store.model.errors import StoreError, StoreFileError
from ...store.model.status import PutResult, PutStatus
from ..config.config import BrokerConfig
from ..sends.placement import HALF_QUEUE_ID
from ..sends.put_context import PutContext
from ..state.consumer_offsets import ConsumerOffsets
from .check_rules import (
    CheckRules,
    Verdict,
    asked_once_more,
    facts_of,
    judge,
    kept_for_later,
)
from .half_properties import Destination, destination_of
from .transaction_log import TransactionLog, as_sent
from .transactions import (
    ENDED,
    KEEP_EARLIER,
    TRANSACTION_GROUP,
    UNDECIDED,
    Transaction,
    op_numbers,
    transaction_of,
)

if TYPE_CHECKING:
    from ...remoting.peer import Peer

log: Final = logging.getLogger(__name__)

PER_TURN: Final = 32
"""Half messages per turn of the loop, at most 30 µs each."""
BYTES_PER_TURN: Final = 256 << 10
BATCH: Final = 1000
"""Copies that share one sync of the disk."""
MAX_KEYS: Final = 200_000
"""Of so many undecided half messages the copies are told from the originals after a restart."""
CONGESTION_S: Final = 0.1
MAX_CONGESTION_WAITS: Final = 10
RETRY_S: Final = 1.0
_HOUR_MS: Final = 3_600_000
_HALF: Final = TopicName.TRANS_HALF
_OP: Final = TopicName.TRANS_OP_HALF


class TransactionCheck:
    """Service: reads both queues at start, then a round every ``transactionCheckInterval``."""

    def __init__(
        self,
        config: BrokerConfig,
        context: PutContext,
        transactions: TransactionLog,
        offsets: ConsumerOffsets,
        members: Callable[[Destination], list[Peer]],
        clock: Clock,
        *,
        settled: Callable[[], Awaitable[bool]],
        save_offsets: Callable[[], Awaitable[None]],
    ) -> None:
        """``members``: who may be asked. ``settled`` has what is stored by now safe, and tells
        whether it is. ``save_offsets`` returns when the offsets are in their file; it may raise
        ``StoreFileError``."""
        self._settled = settled
        self._config = config
        self._log = transactions
        self._halves = transactions.halves
        self._store = context.store
        self._offsets = offsets
        self._members = members
        self._topics = context.topics
        self._dead_letters = context.dead_letters
        self._clock = clock
        self._outages = Outages(clock)
        self._save_offsets = save_offsets
        self._begun: tuple[int, int, int, int] | None = None
        """Of both queues what has to be read, until all of it is."""
        self._turn = 0
        self._work = 0
        self._bytes = 0
        self._not_asked = 0
        self._given_up = 0

    async def run(self) -> None:
        loaded = False
        while True:
            if self._store.config.broker_role is not BrokerRole.SLAVE:
                if not loaded and not (loaded := await self._works(self.load())):
                    await self._clock.sleep(RETRY_S)
                    continue
                await pause(self._clock, self._interval_s)
                await self._works(self.check())
            else:
                loaded = False
                await self._clock.sleep(1.0)

    def _interval_s(self) -> float:
        return max(0.01, self._config.transaction_check_interval / 1000)

    async def _works(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the store could be read for it; else it is done again."""
        try:
            await work
        except StoreError as error:
            self._outages.fails(
                log,
                ("check",),
                "transactions not checked, tried again: %s",
                error,
                level=logging.ERROR,
            )
            return False
        self._outages.works(("check",))
        return True

    # -- at start

    def begin(self) -> None:
        """The first step of ``load``, for who must not be asked anything before it."""
        end = self._store.max_offset(_HALF, HALF_QUEUE_ID)
        ops_end = self._store.max_offset(_OP, HALF_QUEUE_ID)
        front, ops = self._position(_HALF, end), self._position(_OP, ops_end)
        if front is None:
            front, ops = self._store.min_offset(_HALF, HALF_QUEUE_ID), None
        if ops is None:
            ops = self._store.min_offset(_OP, HALF_QUEUE_ID)
        self._halves.begin(front, end, ops)
        self._begun = front, end, ops, ops_end

    async def load(self) -> None:
        """Find out what is undecided: read the ops behind the last progress, then tell copies from
        originals. At last read the ops in front of it, so that a late word about what they say is
        decided does nothing. What cannot be read is read again by the next call, and nothing begins
        anew then: producers have decided meanwhile, of which the ops may not be readable yet."""
        if self._begun is None:
            self.begin()
            assert self._begun is not None
        front, end, ops, ops_end = self._begun
        await self._read_ops(ops, ops_end)
        await self._find_copies(end)
        first = max(self._store.min_offset(_OP, HALF_QUEUE_ID), ops_end - KEEP_EARLIER)
        await self._read_ops(first, ops)
        self._begun = None
        if front < end:
            log.info(
                "transactions read half=%d..%d ops_until=%d undecided=%d",
                front,
                end,
                ops_end,
                self._halves.undecided,
            )

    async def _read_ops(self, number: int, end: int) -> None:
        while number < end:
            found = self._store.get(_OP, HALF_QUEUE_ID, number, 32)
            for message in read_salvaged(bytes(found.body), "")[0]:
                for half in op_numbers(message):
                    if self._is_about(message, half):
                        self._halves.ended(half)
            number = max(found.next_begin_offset, number + 1)
            await self._pause(8)

    def _position(self, topic: str, end: int) -> int | None:
        """How far a queue is done with, as the offsets say. None: it ends before that. It has begun
        anew since, or another broker was ahead of this one; nothing is known of it."""
        offset = self._offsets.get(TRANSACTION_GROUP, topic, HALF_QUEUE_ID)
        begin = self._store.min_offset(topic, HALF_QUEUE_ID)
        return None if offset > end else min(end, max(offset, begin))

    def _is_about(self, op: MessageExt, number: int) -> bool:
        """An op lies behind its half message; others are about an earlier life of their queue."""
        entries = self._store.entries.some(_HALF, HALF_QUEUE_ID, number, 1)
        return not entries or entries[0][0] < op.commit_log_offset

    async def _find_copies(self, end: int) -> None:
        """A word about an earlier number has to find the copy that stands for it. When there was a
        crash after a copy was put and before the progress was saved both are undecided: the copy
        counts.
        """
        newest: dict[Transaction, int] = {}
        copies, number = self._halves.copies, self._halves.front
        while (number := self._halves.next_undecided(number)) < end and len(newest) < MAX_KEYS:
            found = self._log.half(number)
            if found is not None:
                transaction = transaction_of(found[0])
                if _is_copy(found[0]):
                    copies[transaction] = number
                    if (earlier := newest.get(transaction)) is not None:
                        self._one_transaction(earlier, number)
                newest[transaction] = number
            number += 1
            await self._pause()
        alone = {each: number for each, number in newest.items() if each not in copies}
        await self._find_decided_copies(alone, end)

    async def _find_decided_copies(self, alone: dict[Transaction, int], end: int) -> None:
        """Nor is a transaction decided once more of which a copy was, where the progress is older
        than the copy: the broker that put it is gone, and had not told this one."""
        for number in range(min(alone.values(), default=end), end):
            await self._pause()
            if self._halves.state(number) != ENDED:
                continue
            found = self._log.half(number)
            if found is not None and _is_copy(found[0]):
                earlier = alone.pop(transaction_of(found[0]), None)
                if earlier is not None and not self._halves.is_decided(earlier):
                    self._log.put_op(earlier, self._clock.time_ms())
                    self._halves.ended(earlier)  # whether that could be noted or not

    def _one_transaction(self, earlier: int, copy: int) -> None:
        if self._halves.is_decided(earlier):  # meanwhile
            self._log.put_op(copy, self._clock.time_ms())
        elif self._halves.state(copy) == UNDECIDED:
            self._halves.replaced(earlier, copy)

    # -- a round

    async def check(self) -> None:
        """One round over everything that was stored before it began."""
        began_ms = self._clock.time_ms()
        config, halves = self._config, self._halves
        rules = CheckRules(
            timeout_ms=config.transaction_time_out,
            max_checks=config.transaction_check_max,
            keep_ms=self._store.config.file_reserved_time * _HOUR_MS,
        )
        self._topics.create_if_possible(
            _HALF
        )  # here, as in the original, it is made by the first round at the latest
        if expired := halves.dropped_below(self._store.min_offset(_HALF, HALF_QUEUE_ID)):
            log.error("transactions have expired undecided count=%d", expired)
        self._not_asked = self._given_up = 0
        number = halves.front
        end = min(halves.end, self._store.max_offset(_HALF, HALF_QUEUE_ID))
        # of a group's member: the last ones may not be committed yet, and nobody can read them
        copies: list[int] = []
        while (number := halves.next_undecided(number)) < end:
            if not self._check_one(number, rules, began_ms, copies):
                break
            number += 1
            if len(copies) >= BATCH:
                await self._ask(copies)
                copies = []
            await self._pause()
        await self._ask(copies)
        if self._given_up:
            self._outages.occurs(
                log,
                ("given up",),
                "transactions given up, they are in %s count=%d",
                TopicName.TRANS_CHECK_MAX_TIME,
                self._given_up,
            )
        if self._not_asked:
            self._outages.fails(
                log,
                ("not asked",),
                "transactions have no producer to ask: no connection of their groups count=%d",
                self._not_asked,
            )
        else:
            self._outages.works(("not asked",))

    def _check_one(self, number: int, rules: CheckRules, began_ms: int, copies: list[int]) -> bool:
        """Do what has to be done with one undecided half message. False: the round ends here."""
        if number in self._halves.committing:
            return True
        found = self._log.half(number)
        if found is None and self._log.is_awaited(number):
            return True  # the next round looks at it again
        if found is None:
            self._outages.occurs(log, ("gone",), "half message is gone number=%d", number)
            self._halves.dropped(number)
            return True
        half = found[0]
        self._bytes += half.store_size
        facts = facts_of(half)
        now_ms = self._clock.time_ms()
        if facts.prepared_offset is not None and self._halves.state(facts.prepared_offset) == ENDED:
            return self._log.put_op(number, now_ms).status is PutStatus.PUT_OK
        verdict = judge(facts, rules, now_ms, began_ms)
        if verdict is Verdict.STOP:
            return False
        if verdict is Verdict.GIVE_UP:
            result = self._log.put_aside(half, now_ms)
        elif verdict is Verdict.KEEP:
            result = self._log.put_copy(half, kept_for_later(facts, number), now_ms)
        else:
            result = self._log.put_copy(half, asked_once_more(facts), now_ms)
        if result.status.is_for_good:
            return self._set_aside(half, result, now_ms)
        if result.status is not PutStatus.PUT_OK:
            return self._says_not_checked(result)
        if verdict is Verdict.GIVE_UP:
            self._given_up += 1
            log.info("transaction given up %r checks=%d", half, facts.check_times)
        elif verdict is Verdict.ASK:
            copies.append(result.queue_offset)
        return True

    def _set_aside(self, half: MessageExt, why: PutResult, now_ms: int) -> bool:
        """It cannot be stored again: it is asked for no more, as if it had been asked for too
        often."""
        passing = self._dead_letters.take(half, why, TopicName.TRANS_CHECK_MAX_TIME, now_ms)
        if passing is not None:
            return self._says_not_checked(passing)
        self._halves.dropped(half.queue_offset)
        return True

    async def _settle(self) -> bool:
        """Have safe what was written, then how far everything is done with. Whether that is so."""
        progress = self._halves.progress(self._store.max_offset(_OP, HALF_QUEUE_ID))
        if progress == self._saved_progress():
            return True
        if not await self._settled():
            return False  # who had to do it has said why
        for topic, offset in ((_HALF, progress.halves), (_OP, progress.ops)):
            self._offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE_ID, offset, limited=False)
        try:
            await self._save_offsets()
        except StoreFileError as error:
            self._outages.fails(
                log, ("save",), "progress of transactions not saved: %s", error, level=logging.ERROR
            )
        else:
            self._outages.works(("save",))
        return True

    def _saved_progress(self) -> tuple[int, int]:
        get = self._offsets.get
        return get(TRANSACTION_GROUP, _HALF, HALF_QUEUE_ID), get(
            TRANSACTION_GROUP, _OP, HALF_QUEUE_ID
        )

    # -- asking

    async def _ask(self, copies: list[int]) -> None:
        """Settle, then ask the producers about the copies that are still undecided."""
        if not await self._settle():
            return  # should the copies be lost, nobody was asked about them
        patience = MAX_CONGESTION_WAITS
        for number in copies:
            found = self._log.half(number) if self._halves.state(number) == UNDECIDED else None
            if found is None:
                continue
            half = found[0]
            destination = destination_of(half.raw_properties)
            connection = self._choose(destination)
            while connection is None and patience and self._members(destination):
                patience -= 1  # they have too much to read already
                await self._clock.sleep(CONGESTION_S)
                connection = self._choose(destination)
            if connection is None:
                self._not_asked += 1
            else:
                self._send(connection, half, destination)
            await self._pause()

    def _choose(self, destination: Destination) -> Peer | None:
        """One of them that can be written to; they take turns."""
        connections = self._members(destination)
        for _ in connections:
            self._turn += 1
            connection = connections[self._turn % len(connections)]
            if connection.writable:
                return connection
        return None

    def _send(self, connection: Peer, half: MessageExt, destination: Destination) -> None:
        unique_key = half.properties.get(PropertyName.UNIQ_KEY)
        header = CheckTransactionStateRequest(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.commit_log_offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=half.offset_msg_id,
        )
        try:
            connection.invoke_oneway(
                RequestCode.CHECK_TRANSACTION_STATE, header, as_sent(half, destination)
            )
        except RemotingError as error:
            text, level = "producer not asked peer=%s error=%s", logging.INFO
            self._outages.occurs(log, ("asking",), text, connection.peer, error, level=level)
        self._bytes += half.store_size

    async def _pause(self, weight: int = 1) -> None:
        """Let others work when this turn of the loop has done enough."""
        self._work += weight
        if self._work >= PER_TURN or self._bytes >= BYTES_PER_TURN:
            self._work = self._bytes = 0
            await asyncio.sleep(0)

    def _says_not_checked(self, refusal: PutResult) -> bool:
        self._outages.fails(
            log,
            ("store", refusal.status),
            "transactions not checked: %s %s",
            refusal.status.name,
            refusal.remark,
            level=logging.ERROR,
        )
        return False


def _is_copy(half: MessageExt) -> bool:
    facts = facts_of(half)
    return bool(facts.check_times) or facts.prepared_offset is not None
