"""Twelve more defects to be planted: six real ones, fixes that are taken back, and six made up.

They were written when workload, faults and knobs were settled, and nothing was changed for them.
"""

from __future__ import annotations

from typing import Any

from aiorocketmq.broker.raft.mending import EntryMending
from aiorocketmq.broker.replication.last_record import FirstAnswer
from aiorocketmq.broker.replication.slave_sync import SlaveSync
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets
from aiorocketmq.broker.state.queue_locks import QueueLocks
from aiorocketmq.broker.transactions.transaction_check import TransactionCheck
from aiorocketmq.broker.transactions.transactions import HalfMessages
from aiorocketmq.client.consumer.pulling import QueuePuller
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
)
from aiorocketmq.remoting.protocol.bodies.dledger import VoteRequest, VoteResult
from aiorocketmq.store.disk.lock_file import AbortFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.raft.voter import Voter
from aiorocketmq.store.read.readable import Readable

from .defect import Defect


async def _believed(_self: SlaveSync, _master: str) -> FirstAnswer:
    return FirstAnswer("", None)


async def _goes_on(_self: EntryMending) -> None: ...


def _all_of(_self: Readable, queue: ConsumeQueue) -> int:
    return queue.max_offset


def _never(*_args: Any) -> bool:
    return False


def _always(*_args: Any) -> bool:
    return True


def _one_further(self: DelayOffsets, table: DelayOffsetTable) -> None:
    further = {level: offset + 1 for level, offset in table.offset_table.items()}
    _loaded_delays(self, DelayOffsetTable(offset_table=further))


def _groups_one_further(self: ConsumerOffsets, table: ConsumerOffsetTable) -> None:
    further = {
        key: {queue_id: offset + 1 for queue_id, offset in queues.items()}
        for key, queues in table.offset_table.items()
    }
    _loaded_offsets(self, ConsumerOffsetTable(offset_table=further))


async def _nobody_is_asked(_self: TransactionCheck) -> None: ...


def _votes_for_anybody(
    self: Voter, now_ms: int, request: VoteRequest, taking_term: int
) -> VoteResult:
    state, candidate = self._state, request.leader_id
    if candidate in state.settings.others and request.term >= state.term:
        refused = self._refused_by_term(request.term, candidate)
        if refused is None and request.term == state.term:
            state.vote_for(candidate)
            return VoteResult.ACCEPT
    return _decided(self, now_ms, request, taking_term)


class _Forgets(set[int]):
    def add(self, _number: int) -> None: ...


def _nothing_is_committing(self: HalfMessages) -> None:
    _made_halves(self)
    self.committing = _Forgets()  # type: ignore[misc]


_made_halves = HalfMessages.__init__
_loaded_delays, _loaded_offsets, _decided = DelayOffsets.load, ConsumerOffsets.load, Voter._decide

BLIND = (
    Defect("the tables of a master that came back empty are taken over", True,
           SlaveSync, "_ask_first", _believed, ("pair", "group")),
    Defect("a member with damaged entries asks nobody for them", True,
           EntryMending, "mend", _goes_on, ("group",)),
    Defect("messages are read before they are on the disk", True,
           Readable, "end_of", _all_of),
    Defect("slaves get what is not on the disk yet", True,
           MessageStore, "readable_end", property(lambda self: self.max_phy_offset)),
    Defect("who is told to ask again where it is does so at once", True,
           QueuePuller, "_is_stuck", _never),
    Defect("two words about one transaction are two", True,
           HalfMessages, "__init__", _nothing_is_committing),
    Defect("a start passes over one delayed message of each level", False,
           DelayOffsets, "load", _one_further),
    Defect("a start passes over one message of each group and queue", False,
           ConsumerOffsets, "load", _groups_one_further),
    Defect("locks of queues are given to whoever wants one", False,
           QueueLocks, "_lock", _always),
    Defect("nobody is asked about transactions", False,
           TransactionCheck, "check", _nobody_is_asked),
    Defect("votes are given whatever the candidate's log has", False,
           Voter, "_decide", _votes_for_anybody, ("group",)),
    Defect("a start takes every stop for a clean one", False, AbortFile, "exists", _never),
)  # fmt: skip
