"""Topics and groups of a group that elects its master, through the order of its log.

What a leader changes in its tables is a small message of SELF_TEST_TOPIC's queue 0 at once, in
front of the first message of a topic that was made by sending. Members of ours do with their own
tables what such messages say when these are committed, so whoever leads next knows what an
administrator was told; the original's take them for messages that nobody reads. Everybody does all
of them in order: doing one again that the tables know already changes nothing once all are done.
The queues of a topic go when its deletion is committed, at the leader too (``store/dledger/
deletions.py``): a deletion that comes to nothing has deleted nothing.

A file of a table may be older than the log's end: a member that starts does again what was stored
since the file's version.

Tables are also asked for every second (``slave_sync``): a leader of the original has no such
messages, and a log that begins late has none of what lies before. So has a member that led and
changed its tables, but lost the leadership before a majority knew. A version says that tables are
the same: a member takes over that of a change when it had the one before it, and what it has
otherwise is *unsure* until the whole table has come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.errors import RequestError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.properties import PropertyName, encode_properties, tags_code
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import decode_record
from ...remoting.protocol.record.verdict import RecordError
from ...remoting.protocol.wire import Record
from ...remoting.slices import Steps
from ...store.dledger.deletions import Deletions
from ...store.message_store import MessageStore
from ...store.model.put import PutMessage
from ...store.model.status import PutStatus
from ..sends.durability import StoredSafely
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topic, TopicChange, Topics

log: Final = logging.getLogger(__name__)

QUEUE_ID: Final = 0
_BORN_AT: Final = "127.0.0.1:0"
NOBODY: Final = pack_host("127.0.0.1", 0)
"""Who a broker's own messages of SELF_TEST_TOPIC come from. No client can: it has a port."""
_TAG: Final = "TABLES"
_TAGS_CODE: Final = tags_code(_TAG)
_PROPERTIES: Final = encode_properties({PropertyName.TAGS: _TAG})
_PER_LOOK: Final = 1000
_PER_SLICE: Final = 200


class TableChange(Record, frozen=True, kw_only=True):
    """One of the four, and the version that its table has with it, and had before."""

    version: DataVersion
    before: DataVersion | None = None
    """None: a broker that did not say so yet."""
    topic: TopicConfig | None = None
    deleted_topic: str | None = None
    group: SubscriptionGroupConfig | None = None
    deleted_group: str | None = None

    @property
    def is_of_topics(self) -> bool:
        """Else of groups."""
        return self.topic is not None or self.deleted_topic is not None


class TableLog:
    """Of one member."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        clock: Clock,
        *,
        leads: Callable[[], bool],
        changed: Callable[[], None],
        durability: StoredSafely,
        deletions: Deletions,
    ) -> None:
        """``changed``: tables have to be written."""
        self._store: Final = store
        self._topics: Final = topics
        self._groups: Final = groups
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._leads: Final = leads
        self._changed: Final = changed
        self._durability: Final = durability
        self._deletions: Final = deletions
        self._unsafe: dict[tuple[str, str], tuple[TableChange, asyncio.Future[int]]] = {}
        """Changes that a majority is not known to have, and the code that says whether it has."""
        self._topics_from: int = self._first_since(topics.data_version, of_topics=True)
        self._groups_from: int = self._first_since(groups.data_version, of_topics=False)
        """The first messages that their files may lack. What is older in the log must not be done
        again: a leader of the original may have changed it since, without a word in the log."""
        self._next: int = min(self._topics_from, self._groups_from, self._deletions_from())
        """The message that is looked at next."""
        topics.listeners.append(self._topic_changed)
        groups.listeners.append(self._group_changed)

    def _deletions_from(self) -> int:
        """The first message whose deletion is done once more. After an orderly stop all are; any
        other start may have made queues of what lies in front of them."""
        recovered = self._store.recovery
        if recovered is not None and recovered.clean and not recovered.repaired:
            return self._store.max_offset(TopicName.SELF_TEST, QUEUE_ID)
        return self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)

    def _first_since(self, version: DataVersion, *, of_topics: bool) -> int:
        """A table that was never written has nothing of what the log has. Else those count that
        count as far as this version, and where the log does not have it those of its time, too:
        each leader has a clock of its own."""
        if not version.counter:
            return self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
        first, is_known = self._store.max_offset(TopicName.SELF_TEST, QUEUE_ID), False
        for number, _, change in self._changes_backwards():
            if change.is_of_topics is of_topics:
                if change.version.counter < version.counter:
                    break
                first = number
                is_known = is_known or version in (change.version, change.version.unsure)
        return first if is_known else min(first, self._first_since_time(abs(version.timestamp)))

    def _changes_backwards(self) -> Iterator[tuple[int, int, TableChange]]:
        begin = self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
        end = self._store.max_offset(TopicName.SELF_TEST, QUEUE_ID)
        while end > begin:
            first = max(begin, end - _PER_SLICE)
            yield from reversed(list(self._changes(first, end)))
            end = first

    def _first_since_time(self, since_ms: int) -> int:
        entries = self._store.entries
        begin = self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
        number = entries.offset_by_time(TopicName.SELF_TEST, QUEUE_ID, since_ms)
        while (
            number > begin
            and entries.stored_at(TopicName.SELF_TEST, QUEUE_ID, number - 1) >= since_ms
        ):
            number -= 1
        return max(begin, number)

    # -- of a leader

    def _topic_changed(self, topic: Topic, change: TopicChange) -> None:
        version, before, name = self._topics.data_version, self._topics.version_before, topic.name
        if change is TopicChange.DELETED:
            told = TableChange(version=version, before=before, deleted_topic=name)
            self._put(("topic", name), told)
        elif change is not TopicChange.ORDER:  # every member hears of that from name servers
            told = TableChange(version=version, before=before, topic=topic.config)
            self._put(("topic", name), told)

    def _group_changed(self, name: str) -> None:
        version, before = self._groups.data_version, self._groups.version_before
        group = self._groups.find(name)
        if group is None:
            told = TableChange(version=version, before=before, deleted_group=name)
        else:
            told = TableChange(version=version, before=before, group=group)
        self._put(("group", name), told)

    def _put(self, key: tuple[str, str], change: TableChange) -> None:
        if not self._leads():
            return
        now = self._clock.time_ms()
        message = PutMessage(
            TopicName.SELF_TEST,
            QUEUE_ID,
            encode_body(change),
            _PROPERTIES,
            NOBODY,
            now,
            now,
            _TAGS_CODE,
        )
        safe: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._unsafe[key] = change, safe
        result = self._store.put_again(message)  # no limit on what producers send counts
        if result.status is PutStatus.PUT_OK:
            if change.deleted_topic is not None:
                self._deletions.put(change.deleted_topic)
            end = result.phy_offset + result.size
            self._durability.when_stored(end, partial(self._stored, key, safe))
        else:
            self._outages.occurs(
                log,
                ("put",),
                "change of a table is not in the log: %s",
                result.remark or result.status,
            )
            safe.set_result(ResponseCode.SYSTEM_ERROR)

    def _stored(self, key: tuple[str, str], safe: asyncio.Future[int], code: int) -> None:
        if not safe.done():
            safe.set_result(code)
        if code == ResponseCode.SUCCESS and self._unsafe.get(key, (None, None))[1] is safe:
            del self._unsafe[key]

    def committed(self) -> Awaitable[None]:
        """What has changed so far will be known to whoever leads next, once this has been awaited.
        What could not be put or was not confirmed before is tried once more. Raises
        ``RequestError``: perhaps it will not be known."""
        for key, (change, safe) in list(self._unsafe.items()):
            if safe.done():
                self._put(key, change)
        return self._all_safe([safe for _, safe in self._unsafe.values()])

    async def deleted(self, topic: str) -> None:
        """The same for the deletion of a topic, also of one that its table did not have: queues may
        be left."""
        key = "topic", topic
        if key not in self._unsafe:
            version = self._topics.data_version
            self._put(key, TableChange(version=version, before=version, deleted_topic=topic))
        await self.committed()

    async def _all_safe(self, changes: Sequence[asyncio.Future[int]]) -> None:
        codes = [await safe for safe in changes]
        if any(codes) or not self._leads():
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "changed at this member of the group, but a majority is not known to have it: ask "
                "the broker that leads again",
            )

    # -- of everybody

    def catch_up(self) -> None:
        """Do what is said by messages that have been committed since the last call. A leader has
        changed its tables before; its queues go with those of all others."""
        end, leads, done = self._store.max_offset(TopicName.SELF_TEST, QUEUE_ID), self._leads(), 0
        if not leads:
            self._unsafe.clear()
        if end < self._next:  # the log has begun anew
            self._next = self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
            self._topics_from = self._groups_from = self._next
        for number, phy_offset, change in self._changes(self._next, end):
            if change.deleted_topic is not None:
                self._deletions.committed(change.deleted_topic, phy_offset)
            done += not leads and self._do(number, change)
        self._next = end
        if done:
            self._changed()

    def deleted_topics(self) -> Steps[set[str]]:
        """Those of which the log says last that they were deleted: their messages are still there,
        and come by again when queues are made anew. Reads all that the log says of tables."""
        deleted: set[str] = set()
        begin = self._store.min_offset(TopicName.SELF_TEST, QUEUE_ID)
        end = self._store.max_offset(TopicName.SELF_TEST, QUEUE_ID)
        for first in range(begin, end, _PER_SLICE):
            for _, _, change in self._changes(first, min(end, first + _PER_SLICE)):
                if change.topic is not None:
                    deleted.discard(change.topic.topic_name)
                elif change.deleted_topic is not None:
                    deleted.add(change.deleted_topic)
            yield
        return deleted

    def _changes(self, begin: int, end: int) -> Iterator[tuple[int, int, TableChange]]:
        """Number and place of the messages from ``begin`` on, and what they say."""
        while begin < end:
            units = self._store.entries.some(
                TopicName.SELF_TEST, QUEUE_ID, begin, min(_PER_LOOK, end - begin)
            )
            if not units:  # expired, or not readable: it is asked for
                return
            for number, (phy_offset, _size, code) in enumerate(units, begin):
                if code == _TAGS_CODE:
                    change = self._change_of(self._store.message_by_offset(phy_offset))
                    if change is not None:
                        yield number, phy_offset, change
            begin += len(units)

    def _change_of(self, record: bytes | None) -> TableChange | None:
        """None: it is none."""
        if record is None:
            return None
        try:
            message = decode_record(record, check_crc=True)
            if message.born_host == _BORN_AT:
                return decode_body(TableChange, message.body)
        except (RecordError, BodyError) as error:
            self._outages.occurs(
                log, ("read",), "change of a table not understood, it is asked for: %s", error
            )
        return None

    def _do(self, number: int, change: TableChange) -> bool:
        """Whether it is to be made, which is done then."""
        if number < (self._topics_from if change.is_of_topics else self._groups_from):
            return False
        table = self._topics if change.is_of_topics else self._groups
        version, own = change.version, table.data_version
        if own not in (change.before, change.version):
            version = version.unsure  # also of what is done again, which takes the table back
        if change.topic is not None:
            self._topics.take_over(change.topic, version)
        elif change.deleted_topic is not None:
            self._topics.take_deletion(change.deleted_topic, version)
        elif change.group is not None:
            self._groups.take_over(change.group, version)
        elif change.deleted_group is not None:
            self._groups.take_deletion(change.deleted_group, version)
        return True
