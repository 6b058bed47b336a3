"""Twelve more defects to be planted, which no other test sees: six real ones, fixes that are taken
back, and six made up. Only the tests that were written together with a fix see that it is gone.

Workload, faults, knobs and invariants are those of 90cc018d: nothing was changed for these. They
were written down in one list, each with what other tests said (``other_tests.py``), before a seed
was run with one of them: of the fixes the newest first, of those made up as they came to mind, and
the first six of each that no other test saw are the dozen.
"""

from __future__ import annotations

from typing import Any

from aiorocketmq.broker.assembly.storage import Storage
from aiorocketmq.broker.processors.transaction import TransactionProcessor
from aiorocketmq.broker.registry.name_servers import NameServerLink
from aiorocketmq.broker.replication import role_tables
from aiorocketmq.broker.replication.self_mending import SelfMending
from aiorocketmq.broker.replication.table_log import TableLog
from aiorocketmq.broker.sends.new_topics import NewTopics
from aiorocketmq.broker.sends.placement import HALF_QUEUE_ID
from aiorocketmq.broker.state.config_files import OffsetPersistence
from aiorocketmq.broker.state.topics import TopicChange
from aiorocketmq.broker.transactions.transaction_log import TransactionLog
from aiorocketmq.broker.transactions.transactions import ENDED, REPLACED, HalfMessages
from aiorocketmq.remoting.dispatch import PENDING, Reply
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.store.services.flush import FlushService

from .defect import Defect, nothing

# -- real ones, as it was


def _with_the_version_of_now(self: NameServerLink, names: Any) -> TopicConfigTable:
    topics = self._owner.topics
    some = {name: topic.config for name in names if (topic := topics.get(name)) is not None}
    return TopicConfigTable(topic_config_table=some, data_version=topics.data_version)


def _meant_if_replaced(self: HalfMessages, number: int) -> int | None:
    at = number - self._base
    state = self._states[at] if 0 <= at < len(self._states) else self.state(number)
    if state == ENDED:
        return None
    return self._newest.get(number, number) if state == REPLACED else number


_refused = role_tables._with


def _given_by_anybody(table: Any, *rest: Any) -> Any:
    return {**_refused(table, *rest), RequestCode.LOCK_BATCH_MQ: table[RequestCode.LOCK_BATCH_MQ]}


def _told_at_once(self: NewTopics, topic: Any, change: TopicChange) -> None:
    if change is TopicChange.MADE:
        _waited_for(self, topic, change)
    if change.is_for_name_servers:
        for listener in self.listeners:
            listener(topic, self._version())


_waited_for = NewTopics.topic_changed


async def _written_seldom(self: OffsetPersistence) -> None:
    try:
        await self._clock.sleep(10.0)
        while True:
            self.check()
            await self._clock.sleep(max(0.1, self._interval_ms() / 1000))
    finally:
        self.check()


# -- made up


def _knows_recent_ones(self: TransactionLog) -> None:
    end = self._store.max_offset(TopicName.TRANS_HALF, HALF_QUEUE_ID)
    self.halves.begin(end, end)


def _from_the_later_on(self: TableLog, *args: Any, **more: Any) -> None:
    _made_table_log(self, *args, **more)
    self._next = max(self._topics_from, self._groups_from)


_made_table_log = TableLog.__init__


def _any_answer(self: TableLog, key: Any, safe: Any, code: int) -> None:
    if not safe.done():
        safe.set_result(code)
    if not code:
        self._unsafe.pop(key, None)


class _SavesNothing:
    def save(self, _places: Any) -> None: ...


def _claimed_first(self: FlushService, *work: Any) -> None:
    file, self._damage_file = self._damage_file, _SavesNothing()  # type: ignore[misc,assignment]
    try:
        _claimed(self, *work)
    finally:
        self._damage_file = file  # type: ignore[misc]
    file.save(self._damage.places)


_claimed = FlushService._sync_queues_and_checkpoint


def _keeps_what_it_delivered(self: Storage) -> None:
    self.sequences.forget()


def _noted_in_time(
    self: TransactionProcessor, half: Any, result: Any, said: int, meant: int, ctx: Any
) -> Any:
    durability = self._durability
    if not durability.waits or durability.for_all or not half.destination.waits:
        return _committed(self, half, result, said, meant, ctx)
    self._halves.committing.add(meant)

    def safe(code: int) -> None:
        if not code:
            self._halves.committing.discard(meant)
            self._note(said, meant, ctx.received_at_ms)
        if not ctx.oneway:
            ctx.reply(Reply())

    durability.when_stored(result.phy_offset + result.size, safe)
    return Reply() if ctx.oneway else PENDING


_committed = TransactionProcessor._committed

UNSEEN = (
    Defect("a new topic is registered with the version that a later one made", True,
           NameServerLink, "_some_topics", _with_the_version_of_now),
    Defect("a half message far behind is taken for one without a copy", True,
           HalfMessages, "meant_by", _meant_if_replaced),
    Defect("a follower gives locks of queues", True,
           role_tables, "_with", _given_by_anybody, ("group",)),
    Defect("consumers hear of a topic before it is in its file", True,
           NewTopics, "topic_changed", _told_at_once),
    Defect("what lies beside a mended place waits for an hour", True,
           SelfMending, "_ask_beside", nothing, ("pair",)),
    Defect("members write offsets every five seconds", True,
           OffsetPersistence, "run", _written_seldom, ("group",)),
    Defect("a leader knows half messages of an earlier term of its own", False,
           TransactionLog, "begin", _knows_recent_ones, ("group",)),
    Defect("a start does again what the log says of tables from the later place on", False,
           TableLog, "__init__", _from_the_later_on, ("group",)),
    Defect("a change of a table counts as safe when the one before it is", False,
           TableLog, "_stored", _any_answer, ("group",)),
    Defect("a checkpoint claims what lies behind damage before that is noted", False,
           FlushService, "_sync_queues_and_checkpoint", _claimed_first),
    Defect("who leads no more keeps what it delivered, whoever has it", False,
           Storage, "end_as_master", _keeps_what_it_delivered, ("group",)),
    Defect("a commit that is not safe in time is asked for no more, and never noted", False,
           TransactionProcessor, "_committed", _noted_in_time),
)  # fmt: skip
