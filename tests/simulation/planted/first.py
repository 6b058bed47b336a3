"""Twelve defects to be planted: six are real, fixes that are taken back, six are made up.

The workload was made heavier until it found more of these. ``blind.py`` has twelve that nobody
knew when it was settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiorocketmq.broker.processors.send_back import SendBackProcessor
from aiorocketmq.broker.processors.transaction import TransactionProcessor
from aiorocketmq.broker.schedule.offset_persistence import DelayOffsetPersistence
from aiorocketmq.broker.sends.durability import Durability
from aiorocketmq.client.consumer.consumption import ConcurrentConsumption
from aiorocketmq.client.consumer.process_queue import ProcessQueue
from aiorocketmq.client.producer.transaction import TransactionProducer
from aiorocketmq.remoting.dispatch import PENDING, Reply
from aiorocketmq.store.dledger.raft_store import RaftStore
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.raft.leadership import Leadership
from aiorocketmq.store.raft.ready import HardState
from aiorocketmq.store.replica import repair
from aiorocketmq.store.services.flush import FlushService

from .defect import Defect, nothing, nothing_later


def _whole_file(_begin: int, _end: int, log_start: int, log_end: int, _damaged: Any) -> Any:
    return log_start, log_end


class _WaitsForNobody:
    waits = for_all = False


_given_back = SendBackProcessor.send_back


def _give_back_at_once(self: SendBackProcessor, *args: Any) -> Any:
    if not self._durability.for_all:
        self._durability = _WaitsForNobody()  # type: ignore[assignment]
    return _given_back(self, *args)


def _note_at_once(
    self: TransactionProcessor, half: Any, result: Any, said: int, meant: int, ctx: Any
) -> Any:
    self._note(said, meant, ctx.received_at_ms)
    if not self._durability.waits or ctx.oneway:
        return Reply()
    self._durability.when_all_stored(lambda _code: ctx.reply(Reply()))
    return PENDING


def _safe_at_once(self: DelayOffsetPersistence, done: Callable[[bool], None]) -> None:
    self._seen = table = self._offsets.table()
    self.make_safe(table)
    done(True)


def _acknowledged_at_once(self: Durability, _phy_offset: int, ctx: Any, answer: Any) -> None:
    self.tell(ctx, answer, 0)


def _commits_alone(self: Leadership, end: int) -> None:
    if end >= self._first_own and end > self._state.committed:
        self._state.commit(end)


async def _votes_in_memory(
    self: RaftStore, hard_state: HardState | None, votes: bool | None
) -> None:
    if hard_state is not None:
        self.files.hard_state = hard_state
    if votes is not None:
        self.files.save_votes(votes)


def _everything_is_consumed(self: ProcessQueue, messages: Any) -> int:
    for message in messages:
        self._held.pop(message.queue_offset, None)
    while self._line and self._line[0] not in self._held:
        self._line.popleft()
    return self._end


async def _always_taken_back(
    self: ConcurrentConsumption, send_back: Any, message: Any, delay_level: int
) -> bool:
    await _taken_back(self, send_back, message, delay_level)
    return True


_taken_back = ConcurrentConsumption._taken_back

KNOWN = (
    Defect("opening a store forgets the damage that it finds", True,
           MessageStore, "_know_damage", nothing),
    Defect("damaged places side by side keep each other damaged", True,
           repair, "intact_beside", _whole_file, ("pair",)),
    Defect("what is given back waits for nobody", True,
           SendBackProcessor, "send_back", _give_back_at_once),
    Defect("a transaction is decided before its message is safe", True,
           TransactionProcessor, "_committed", _note_at_once),
    Defect("a transaction producer is not known before it sends", True,
           TransactionProducer, "_find_brokers", nothing_later),
    Defect("delayed messages count as delivered before they are safe", True,
           DelayOffsetPersistence, "_make_safe_later", _safe_at_once),
    Defect("sends are answered at once", False, Durability, "answer", _acknowledged_at_once),
    Defect("a sync syncs nothing", False, FlushService, "_sync_files", nothing),
    Defect("a leader commits alone", False, Leadership, "_commit", _commits_alone, ("group",)),
    Defect("votes are kept in memory", False, RaftStore, "save", _votes_in_memory, ("group",)),
    Defect("offsets go past what is being handled", False,
           ProcessQueue, "remove", _everything_is_consumed),
    Defect("what cannot be given back is dropped", False,
           ConcurrentConsumption, "_taken_back", _always_taken_back),
)  # fmt: skip
