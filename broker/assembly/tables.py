"""What a broker keeps in ``config/``: topics, groups, offsets, filters, and the file of each
(``commitlog.md`` §15)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ...daemon.persist import aside_of
from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.consumer_offsets import (
    DelayOffsetTable,
    LmqConsumerOffsetTable,
)
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from ...remoting.protocol.bodies.topic_config import TopicConfigTable
from ...remoting.protocol.message.topic_names import (
    TopicName,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from ...remoting.services import Service
from ...remoting.sliced_requests import in_slices
from ...remoting.slices import at_once
from ...remoting.transport.usable_memory import usable_memory
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ...store.model.delay_levels import queue_of_level
from ..config.settings import BrokerSettings
from ..replication.roles import forget_slave, was_slave
from ..schedule.schedule_offsets import DelayOffsets
from ..state.clients import Consumers, Producers
from ..state.config_files import ConfigFile, ConfigFiles, OffsetPersistence
from ..state.consumer_filter_file import FILE_NAME as FILTERS_FILE
from ..state.consumer_filter_file import FilterPersistence, load_filters
from ..state.consumer_offsets import OFFSETS_FILE, ConsumerOffsets
from ..state.lmq import LIGHT_OFFSETS_FILE, LightConsumerOffsets
from ..state.queue_locks import QueueLocks
from ..state.state import State
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topic, TopicChange, Topics
from ..transactions.transactions import TRANSACTION_GROUP

log: Final = logging.getLogger(__name__)

TOPICS_FILE: Final = "topics.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
DELAY_OFFSETS_FILE: Final = "delayOffset.json"
_MAX_NAMES: Final = 20
_OF_TRANSACTIONS: Final = (TopicName.TRANS_HALF, TopicName.TRANS_OP_HALF)
_ANY_OFFSET: Final = 2**63
_SHARE_OF_MEMBERS: Final = 8
"""Of the memory that this process may use, for what producers say of themselves, and as much for
consumers: together as much as what connections may hold (``maxBufferedBytes``)."""


class Tables:
    """The tables as their files have them, and the files, which are written when somebody says that
    a table has changed.

    They are there before the store is opened: messages that recovery puts into their queues again
    get bit maps of the ``filters``, too.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        """Blocks. Raises ``StoreFileError``."""
        config, folder = settings.broker, settings.store.root / "config"
        light = settings.store.enable_lmq
        self._light: Final = light
        self._offset_files: Final = (
            (LIGHT_OFFSETS_FILE, OFFSETS_FILE) if light else (OFFSETS_FILE, LIGHT_OFFSETS_FILE)
        )
        """The one that is written, and the one that was while ``enableLmq`` was the other way: put
        aside at the first start behind the switch."""
        self._default_queues: Final = config.default_topic_queue_nums
        self._clock: Final = clock
        self.files: ConfigFiles = ConfigFiles(folder, clock)
        most_bytes = usable_memory() // _SHARE_OF_MEMBERS
        self.state: State = State(
            topics=Topics(config, clock, light=light),
            groups=SubscriptionGroups(config, clock, light=light),
            offsets=LightConsumerOffsets() if light else ConsumerOffsets(),
            filters=load_filters(config, self.files, clock),
            locks=QueueLocks(Outages(clock)),
            producers=Producers(most_bytes),
            consumers=Consumers(most_bytes),
        )
        self.delay_offsets: DelayOffsets = DelayOffsets()
        self._load()
        state, add = self.state, self.files.add
        self.in_log: Callable[[], Awaitable[None]] = _nothing
        """Changes so far are safe, once this has been awaited (``TableLog.committed``)."""
        self.deleted_in_log: Callable[[str], Awaitable[None]] = _nothing
        """The same for the deletion of a topic (``TableLog.deleted``)."""
        self.topics_file: ConfigFile = add(TOPICS_FILE, state.topics.record)
        self.groups_file: ConfigFile = add(GROUPS_FILE, state.groups.record)
        self.offsets_file: ConfigFile = add(self._offset_files[0], state.offsets.record_in_slices)
        self.delay_offsets_file: ConfigFile = add(
            DELAY_OFFSETS_FILE, self.delay_offsets.safe_record
        )
        self.filters_file: ConfigFile = add(FILTERS_FILE, state.filters.record)
        self._put_other_offsets_aside()
        self._offset_persistence = OffsetPersistence(
            state.offsets,
            self.offsets_file,
            lambda: config.flush_consumer_offset_interval,
            clock,
            often=settings.store.enable_dledger_commit_log,
        )
        self._filter_persistence = FilterPersistence(
            config, state.filters, self.filters_file, clock
        )

    def _load(self) -> None:
        files, state = self.files, self.state
        if (topics := files.load(TOPICS_FILE, TopicConfigTable)) is not None:
            state.topics.load(topics)
        if (groups := files.load(GROUPS_FILE, SubscriptionGroupTable)) is not None:
            state.groups.load(groups)
        self._load_offsets()
        if (delay_offsets := files.load(DELAY_OFFSETS_FILE, DelayOffsetTable)) is not None:
            self.delay_offsets.load(delay_offsets)

    def _load_offsets(self) -> None:
        """After a switch of ``enableLmq`` they are in the other file; those of light groups are in
        one of the two only. Both are there where the original was switched: then the one that was
        written last counts."""
        newest = self.files.newest(*self._offset_files)
        table = self.files.load(newest, LmqConsumerOffsetTable)
        if self._light and newest == OFFSETS_FILE:
            is_there = self.files.is_there(LIGHT_OFFSETS_FILE)
            name = LIGHT_OFFSETS_FILE if is_there else aside_of(LIGHT_OFFSETS_FILE).name
            light = self.files.load(name, LmqConsumerOffsetTable)
            if table is not None and light is not None:
                table = replace(table, lmq_offset_table=light.lmq_offset_table)
        if table is not None:
            self.state.offsets.load(table)

    def _put_other_offsets_aside(self) -> None:
        """Once what was read of it is in the file that is written: a copy of the store that keeps
        no times would not tell which of two counts."""
        other = self._offset_files[1]
        if self.files.is_there(other):
            self.offsets_file.changed()
            self.offsets_file.save_now()
            self.files.put_aside(other)

    @property
    def services(self) -> tuple[Service, ...]:
        return (self._offset_persistence, self.files, self._filter_persistence)

    def save_now(self) -> None:
        """Blocks: at the end."""
        self._offset_persistence.check()
        self.files.save_now()

    def agree_with(self, store: MessageStore) -> None:
        """Once the store is open, before anybody looks at offsets. Blocks. Raises
        ``StoreFileError``. A member of a group that elects its master does not know yet what there
        is: ``begin_as_master``."""
        self.state.filters.stored_before(store.last_store_timestamp)
        if store.config.enable_dledger_commit_log:
            return
        if store.config.broker_role is not BrokerRole.SLAVE:  # what its log lacks comes again
            self._correct_delay_offsets(store)
        self._clamp_offsets(store)
        self._compare(store)

    def _correct_delay_offsets(self, store: MessageStore) -> None:
        if self.delay_offsets.correct(
            lambda level: store.max_offset(TopicName.SCHEDULE, queue_of_level(level))
        ):
            self.delay_offsets_file.changed()

    def _clamp_offsets(self, store: MessageStore) -> None:
        """After a crash of a master, and when a slave has become one, no group goes on behind what
        its store has."""
        if store.config.broker_role is BrokerRole.SLAVE:
            return
        folder = store.config.root / "config"
        is_clean = store.recovery is None or store.recovery.clean
        if is_clean and not was_slave(folder):
            return
        if clamped := self.state.offsets.clamp(_ends(store)):
            log.warning(
                "consumer offsets behind the end of their queues were set to it offsets=%d", clamped
            )
            self.offsets_file.changed()
            self.offsets_file.save_now()  # before what tells that it has to be done is gone
        forget_slave(folder)

    def _compare(self, store: MessageStore) -> None:
        """Say what tables do not know that did not come from their own files, as far as something
        else tells. A slave gets its master's."""
        if store.config.broker_role is BrokerRole.SLAVE:
            return
        if self.files.is_doubtful(TOPICS_FILE):
            topics = {
                topic
                for topic in store.topics()
                if not is_system_topic(topic) and topic not in self.state.topics
            }
            _say_unknown(TOPICS_FILE, "the messages in the store", topics, "updateTopic")
        if self.files.is_doubtful(GROUPS_FILE):
            groups = {
                group
                for group in at_once(self.state.offsets.topics_by_group())
                if group not in self.state.groups
            }
            _say_unknown(GROUPS_FILE, OFFSETS_FILE, groups - {TRANSACTION_GROUP}, "updateSubGroup")

    def begin_as_master(self, store: MessageStore, unknown_topics: Sequence[str]) -> None:
        """This member of a group leads, and its queues have all that is committed. The last master
        did not live to tell of ``unknown_topics``: they get the queues that they would get from
        whoever makes them by sending."""
        self._correct_delay_offsets(store)
        topics = self.state.topics
        for name in unknown_topics:
            queues = max(store.queue_ids(name), default=0) + 1
            own = is_retry_topic(name) or is_dlq_topic(name) or is_system_topic(name)
            made = topics.create_if_possible(
                name, queue_nums=queues if own else max(queues, self._default_queues)
            )
            log.warning("the last master did not tell of a topic, it is made topic=%r", made)
        topics.new_version()  # name servers take all of it over, whatever they knew of this address
        self.state.groups.new_version()  # and members: they may have what no log ever had

    async def clamp_offsets(self, store: MessageStore) -> None:
        """Before this member of a group is master: the same as after a crash, should the group have
        lost what it had acknowledged. Others have their turn meanwhile."""
        clamped = await in_slices(self.state.offsets.clamp_in_slices(_ends(store)))
        if clamped:
            log.warning("consumer offsets behind the end of their queues offsets=%d", clamped)
            self.offsets_file.changed()

    async def save_offsets(self) -> None:
        """Return when the consumer offsets are on the disk as they are now. Raises
        ``StoreFileError``."""
        self.offsets_file.changed()
        await self.offsets_file.saved()

    def queue_deleted(self, topic: str, queue_id: int) -> None:
        """It begins at 0 again, and so do groups."""
        if self.state.offsets.remove_queues(topic, (queue_id,)):
            self.offsets_file.changed()

    def topic_changed(self, _topic: Topic, _change: TopicChange) -> None:
        """Its file is to be written."""
        self.topics_file.changed()

    def group_changed(self, _name: str) -> None:
        """Its file is to be written."""
        self.groups_file.changed()

    async def settled(self, file: ConfigFile, *, offsets_too: bool = False) -> None:
        """Return when what has changed so far in this table is in the log of a majority, where this
        is the leader of a group, and on the disk; ``offsets_too``: what has been removed of them is
        not there again after a kill. Raises ``RequestError``, ``StoreFileError``."""
        await self.in_log()
        await file.saved()
        if offsets_too:
            self._offset_persistence.check()
            await self.offsets_file.saved()

    def forget_filters(self, group: str) -> None:
        """Nobody of a group is there any more."""
        self.state.filters.unregister(group, self._clock.time_ms())

    def taken_over(self) -> None:
        """Topics and groups have come from a master."""
        self.topics_file.changed()
        self.groups_file.changed()


async def _nothing(_topic: str = "") -> None:
    pass


def _ends(store: MessageStore) -> Callable[[str, int], int]:
    """Where the queues end that groups read. Of those of transactions the broker finds out itself
    what an offset behind the end means."""

    def end(topic: str, queue_id: int) -> int:
        return _ANY_OFFSET if topic in _OF_TRANSACTIONS else store.max_offset(topic, queue_id)

    return end


def _say_unknown(name: str, witness: str, unknown: set[str], command: str) -> None:
    if unknown:
        first = sorted(unknown)[:_MAX_NAMES]
        more = f" and {len(unknown) - len(first)} more" if len(unknown) > len(first) else ""
        names = ", ".join(first) + more
        log.error(
            "%s is not up to date with %s, it does not know: %s; make them again: mqadmin %s",
            name,
            witness,
            names,
            command,
        )
