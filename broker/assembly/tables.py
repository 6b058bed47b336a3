"""What a broker keeps in ``config/``: topics, groups, offsets, filters, and the file of each
(``commitlog.md`` §15)."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.clock import Clock
from ...remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    LmqConsumerOffsetTable,
)
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from ...remoting.protocol.bodies.topic_config import TopicConfigTable
from ...remoting.protocol.message.topic_names import is_system_topic
from ...remoting.slices import at_once
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ..config.settings import BrokerSettings
from ..replication.roles import forget_slave
from ..schedule.schedule_offsets import DelayOffsets
from ..state.config_files import ConfigFile, ConfigFiles
from ..state.consumer_filter_file import FILE_NAME as FILTERS_FILE
from ..state.consumer_filter_file import load_filters
from ..state.consumer_filters import ConsumerFilters
from ..state.consumer_offsets import OFFSETS_FILE, ConsumerOffsets
from ..state.lmq import LIGHT_OFFSETS_FILE, LightConsumerOffsets
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topics
from ..transactions.transactions import TRANSACTION_GROUP

log: Final = logging.getLogger(__name__)

TOPICS_FILE: Final = "topics.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
DELAY_OFFSETS_FILE: Final = "delayOffset.json"
_MAX_NAMES: Final = 20


class Tables:
    """The tables as their files have them, and the files, which are written when somebody says that
    a table has changed.

    They are there before the store is opened: messages that recovery puts into their queues again
    get bit maps of the ``filters``, too.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        """Blocks. Raises ``StoreFileError``."""
        config, folder = settings.broker, settings.store.root / "config"
        self._light: Final = settings.store.enable_lmq
        self.topics: Topics = Topics(config, clock, light=self._light)
        self.groups: SubscriptionGroups = SubscriptionGroups(config, clock, light=self._light)
        self.offsets: LightConsumerOffsets | ConsumerOffsets = (
            LightConsumerOffsets() if self._light else ConsumerOffsets()
        )
        self.delay_offsets: DelayOffsets = DelayOffsets()
        self.files: ConfigFiles = ConfigFiles(folder, clock)
        self.filters: ConsumerFilters = load_filters(config, self.files, clock.time_ms())
        self._load()
        self.topics_file: ConfigFile = self.files.add(TOPICS_FILE, self.topics.record)
        self.groups_file: ConfigFile = self.files.add(GROUPS_FILE, self.groups.record)
        self.offsets_file: ConfigFile = self.files.add(
            LIGHT_OFFSETS_FILE if self._light else OFFSETS_FILE, self.offsets.record_in_slices
        )
        self.delay_offsets_file: ConfigFile = self.files.add(
            DELAY_OFFSETS_FILE, self.delay_offsets.safe_record
        )
        self.filters_file: ConfigFile = self.files.add(FILTERS_FILE, self.filters.record)

    def _load(self) -> None:
        files = self.files
        if (topics := files.load(TOPICS_FILE, TopicConfigTable)) is not None:
            self.topics.load(topics)
        if (groups := files.load(GROUPS_FILE, SubscriptionGroupTable)) is not None:
            self.groups.load(groups)
        light_offsets = (
            files.load(LIGHT_OFFSETS_FILE, LmqConsumerOffsetTable) if self._light else None
        )
        if (offsets := light_offsets or files.load(OFFSETS_FILE, ConsumerOffsetTable)) is not None:
            self.offsets.load(offsets)
        if (delay_offsets := files.load(DELAY_OFFSETS_FILE, DelayOffsetTable)) is not None:
            self.delay_offsets.load(delay_offsets)

    def clamp_offsets(self, store: MessageStore) -> None:
        """After a crash of a master, and when a slave has become one, no group goes on behind what
        its store has."""
        if store.config.broker_role is BrokerRole.SLAVE:
            return
        was_slave = forget_slave(store.config.root / "config")
        if not was_slave and (store.recovery is None or store.recovery.clean):
            return
        if clamped := self.offsets.clamp(store.max_offset):
            log.warning(
                "consumer offsets behind the end of their queues were set to it offsets=%d", clamped
            )
            self.offsets_file.changed()

    def compare(self, store: MessageStore) -> None:
        """Say what tables do not know that did not come from their own files, as far as something
        else tells. A slave gets its master's."""
        if store.config.broker_role is BrokerRole.SLAVE:
            return
        if self.files.is_doubtful(TOPICS_FILE):
            topics = {
                topic
                for topic in store.topics()
                if not is_system_topic(topic) and topic not in self.topics
            }
            _say_unknown(TOPICS_FILE, "the messages in the store", topics, "updateTopic")
        if self.files.is_doubtful(GROUPS_FILE):
            groups = {
                group
                for group in at_once(self.offsets.topics_by_group())
                if group not in self.groups
            }
            _say_unknown(GROUPS_FILE, OFFSETS_FILE, groups - {TRANSACTION_GROUP}, "updateSubGroup")

    async def save_offsets(self) -> None:
        """Return when the consumer offsets are on the disk as they are now. Raises
        ``StoreFileError``."""
        self.offsets_file.changed()
        await self.offsets_file.saved()

    def taken_over(self) -> None:
        """Topics and groups have come from a master."""
        self.topics_file.changed()
        self.groups_file.changed()


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
