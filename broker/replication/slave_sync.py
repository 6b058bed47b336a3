"""What a slave takes over from its master besides the log: topics, groups, offsets (class
SlaveSynchronize; ha.md §6, §7).

Topics and groups are the master's. Consumer offsets are too, except where a consumer told this
slave more while the master was away: its place is kept until the master comes to it, or goes back
from where it was, which is a reset. What a master deletes while its slave follows goes there too.
So does what is known of a queue that begins anew in the log, for its topic was deleted and made
again: only the log tells that at any time. What the master knows of the new one comes again.

They are asked for every 10 s (in a group that elects its master every second, dledger.md §5.4),
topics also as soon as the log brings a message of one that is not known here: until it is, no
consumer could read the message from this slave, or from the master that is made of it when the old
one is lost. A master of ours is told which topics and groups are known, and sends no others.
Before that it says whether anything has changed at all: where nothing has, that is the only
question of a round. Once after a start, and when its log began anew, the slave also asks where the
queues end of which nothing is left (``gone_queues``).

A master whose log has not what this slave has is not believed: one that lost its disk and came back
has empty tables, and this slave's may be the only ones that are left. (The original takes them.)

One file, though over 400 lines: whatever is asked for in a round counts under the same conditions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.dispatch import Body, Context, Handler, Reply
from ...remoting.errors import ConnectError, RocketMQError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import BodyError, decode_body
from ...remoting.protocol.bodies.consumer_offsets import DelayOffsetTable, LmqConsumerOffsetTable
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from ...remoting.protocol.bodies.topic_config import DataVersion, TopicConfigTable
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.offset import AllOffsetsResponse, UpdateConsumerOffsetRequest
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.commands.topic import KnownTableRequest
from ...remoting.protocol.wire import EmptyFields
from ...remoting.responses import Response
from ...remoting.services import happens_within
from ...remoting.slices import slices
from ...remoting.transport.address import moved_port
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.replica.replication import ReplicationError
from ..config.config import HA_PORT_DISTANCE, VIP_PORT_DISTANCE
from ..schedule.offset_persistence import DelayOffsetPersistence
from ..state.config_files import ConfigFiles
from ..state.consumer_offsets import SEPARATOR, ConsumerOffsets
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topics
from .accepted_offsets import AcceptedOffsets, AcceptedOffsetTable
from .last_record import TIMEOUT_S, FirstAnswer, ask_for_last_record
from .queue_ends import note_numbers, take_queue_ends
from .role_tables import slave_table
from .told_progress import ToldProgress, is_progress

log: Final = logging.getLogger(__name__)

SYNC_S: Final = 10.0
GROUP_SYNC_S: Final = 1.0
"""Of a member of a group: anybody may be the master in a moment."""
SOON_S: Final = 0.1
"""Topics are asked for no more often than that, and ever more seldom while that brings nothing
new."""
_MOST_UNKNOWN: Final = 10_000
_PER_TURN: Final = 500
"""Topics and groups whose offsets are looked at in one turn of the loop."""
_DONE: Final = Reply(header=EmptyFields())


class MasterTables(NamedTuple):
    """What a slave takes over from its master."""

    topics: Topics
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    delay_offsets: DelayOffsetPersistence
    files: ConfigFiles
    changed: Callable[[], None]
    """Topics or groups have to be written."""
    offsets_changed: Callable[[], None]
    """Consumer offsets have to be written now."""


class SlaveSync:
    """Service: the tables of the master, if one is known (``master_is``), when they are due."""

    def __init__(
        self,
        store: MessageStore,
        tables: MasterTables,
        accepted: AcceptedOffsets,
        remoting: RemotingClient,
        clock: Clock,
        *,
        own_address: Callable[[], str],
        accepted_changed: Callable[[], None],
        every_s: float = SYNC_S,
    ) -> None:
        """``accepted_changed``: ``AcceptedOffsets`` have to be written."""
        self.master: str | None = None
        """Its normal port."""
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._accepted = accepted
        self._delay_offsets = tables.delay_offsets
        self._progress = ToldProgress(tables.delay_offsets, tables.offsets)
        self._remoting = remoting
        self._clock = clock
        self._own_address = own_address
        self._changed = tables.changed
        self._offsets_changed = tables.offsets_changed
        self._accepted_changed = accepted_changed
        self._every_s = every_s
        self._known = asyncio.Event()
        self._new_topic = asyncio.Event()
        self._groups_too = False
        self._unknown: dict[str, None] = {}
        """Topics that the log has brought, and the master not yet."""
        self._begun_anew: set[tuple[str, int]] = set()
        """Queues, since the master's offsets were asked for: these may be of the old ones."""
        store.replica.on_new_queue.append(self._queue_made)
        store.replica.on_begun_anew.append(self._queues_begun_anew)
        self._outages = Outages(clock)
        self._theirs: Mapping[str, Mapping[int, int]] = {}
        self._their_state = ""
        """Offsets of the last master that told its state, and which it was."""
        self._believed_over: object | None = None
        """The connection over which the master was found to have this broker's last record: behind
        another one there may be a process that came back empty."""
        self._taken: tuple[object, ...] | None = None
        """What the last round found before it asked for all tables, if it got them all: whatever
        has changed since, by that round or not, is found to be another one."""
        self._forgotten = 0  # how often a master was, with what it had told

    def master_is(self, address: str | None) -> None:
        """What a name server says."""
        if address and address != self.master and address != self._own_address():
            log.info("the master is %s (before: %s)", address, self.master or "not known")
            self.master = address
            self._forget_progress()
            self._known.set()

    def leads(self) -> list[str]:
        """This broker is the master now: what was accepted here counts. Returns the topics of which
        the log has messages and that the last master did not live to tell of."""
        self.forget_master()
        self._accepted.load(AcceptedOffsetTable())
        self._accepted_changed()
        unknown = [topic for topic in self._unknown if topic not in self._topics]
        self._unknown.clear()
        return unknown

    @property
    def has_unknown_topics(self) -> bool:
        """The log has messages of topics that the last master did not live to tell of."""
        return bool(self._unknown)

    def were_deleted(self, topics: Iterable[str]) -> None:
        """As the log says: they are not to be made again."""
        for topic in topics:
            self._unknown.pop(topic, None)

    def forget_master(self) -> None:
        """There is another one from now on, or none."""
        self.master = None
        self._theirs, self._their_state = {}, ""
        self._forget_progress()
        self._known.clear()

    def _forget_progress(self) -> None:
        """What another one tells, or is telling, counts no more."""
        self._progress.forget()
        self._forgotten += 1

    async def run(self) -> None:
        """Until cancelled; for the first time as soon as the master is known. Long tables get
        pauses as long as they take."""
        while True:
            await self._known.wait()
            if (master := self.master) is not None:
                began = self._clock.monotonic()
                await self.sync(master)
                took = self._clock.monotonic() - began
                await self._ask_for_new_topics(began + max(self._every_s, 2 * took))

    async def _ask_for_new_topics(self, until: float) -> None:
        """When the log brings them. What it brings may be what is left of a topic that was
        deleted."""
        pause = SOON_S
        while (left := until - self._clock.monotonic()) > 0 and await happens_within(
            self._new_topic, left, self._clock
        ):
            self._new_topic.clear()
            before = self._topics.data_version
            if (master := self.master) is None:
                return
            believed = await self._ask_first(master) is not None
            if not believed or not await self._try(
                self._sync_topics, master, RequestCode.GET_ALL_TOPIC_CONFIG
            ):
                self._new_topic.set()
            if believed and self._groups_too:
                self._groups_too = False
                await self._try(
                    self._sync_groups, master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
                )
            pause = SOON_S if self._topics.data_version != before else 2 * pause
            await self._clock.sleep(max(0.0, min(pause, until - self._clock.monotonic())))

    def tables_changed(self) -> None:
        """The master has other topics or groups, somebody says."""
        self._groups_too = True
        self._new_topic.set()

    def _queue_made(self, topic: str) -> None:
        if topic not in self._topics:
            if len(self._unknown) < _MOST_UNKNOWN:
                self._unknown[topic] = None
            self._new_topic.set()

    def _queues_begun_anew(self, topic: str, queue_ids: Collection[int]) -> None:
        self._begun_anew.update((topic, queue_id) for queue_id in queue_ids)
        if self._offsets.remove_queues(topic, queue_ids):
            self._offsets_changed()
        if self._accepted.forget_queues(topic, queue_ids):
            self._accepted_changed()

    async def sync(self, master: str) -> None:
        """Once. What fails does not keep the rest from it."""
        first = await self._ask_first(master)
        if first is None:
            return
        self._take_progress()
        found = self._found(first.tables)
        if found is None or found != self._taken or self._unknown:
            await self._sync_tables(master, found)
        if self._store.gone_queues.wanted and self._store.log_end > self._store.min_phy_offset:
            await self._take_queue_ends(master)  # last, for many take long

    async def _sync_tables(self, master: str, found: tuple[object, ...] | None) -> None:
        """All of them; ``found`` before."""
        all_of_it, forgotten = True, self._forgotten
        for step, code in (
            (self._sync_topics, RequestCode.GET_ALL_TOPIC_CONFIG),
            (self._sync_offsets, RequestCode.GET_ALL_CONSUMER_OFFSET),
            (self._sync_delay_offsets, RequestCode.GET_ALL_DELAY_OFFSET),
            (self._sync_groups, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        ):
            all_of_it &= await self._try(step, master, code)
        all_of_it &= await self._ask_where_it_ends(master, forgotten)
        self._taken = found if all_of_it and not self._begun_anew else None

    async def _ask_where_it_ends(self, master: str, forgotten: int) -> bool:
        """The master's log, after it has told how far it is; one of the original does not tell.
        Whether that will count: it is still the master (``forgotten`` when it was asked first)."""
        believed = self._believed_over
        again = await self._ask_first(master)
        if again is None or self._believed_over is not believed or self._forgotten != forgotten:
            self._progress.heard_in_vain()
            return False
        is_committed = self._store.raft is not None
        if not again.was_asked and not is_committed:  # a log without a record is behind anything
            self._progress.heard_in_vain()
            return False
        counts = self._progress.ended_at(0 if is_committed else again.log_end or 0)
        self._take_progress()
        if self._progress.waits:
            self._clock.call_later(SOON_S, self._take_progress)
        return counts

    def _take_progress(self) -> None:
        """As far as the log has come here; a slave's is on the disk then. Its file of what was
        delivered is what it goes by when it is started as the master, perhaps after a power failure
        (``schedule_offsets``)."""
        store, progress = self._store, self._progress
        if store.raft is not None:
            progress.take(store.log_end)
        elif progress.is_reached(store.log_end):
            store.flush.when_synced(lambda: progress.take(store.flushed_offset))

    def _found(self, theirs: str | None) -> tuple[object, ...] | None:
        """The master's word for its tables, where it has one, and what this slave has."""
        if theirs is None:
            return None
        return (
            theirs,
            self._topics.data_version,
            self._groups.data_version,
            self._offsets.changes,
            self._delay_offsets.safe_text,
            self._forgotten,
        )

    async def _ask_first(self, master: str) -> FirstAnswer | None:
        """None: it is not believed, for its log has not the last message that can be read here."""
        try:
            self._believed_over = await self._remoting.connection(master, timeout=TIMEOUT_S)
            first = await ask_for_last_record(self._store, self._remoting, master)
        except (RocketMQError, StoreError) as error:
            first = FirstAnswer(f"it cannot be asked for this slave's last record: {error}", None)
        if first.lacks:
            text = "no tables are taken over from the master %s: %s"
            self._outages.fails(log, ("believed",), text, master, first.lacks)
            return None
        self._outages.works(("believed",))
        return first

    async def _try(
        self, step: Callable[[Response], object], master: str, code: RequestCode
    ) -> bool:
        """Whether it was taken over."""
        unknown, before = tuple(self._unknown), self._version_of(code)
        try:
            response = await self._ask(master, code, before)
            if self._remoting.connected_to(master) is not self._believed_over:
                return False  # the next round asks first again
            if self._version_of(code) != before:  # the log has told more than the answer may know
                return False
            outcome = None
            if before is None or response.body:  # else it is the same
                outcome = step(response)
            if asyncio.iscoroutine(outcome):
                await outcome
        except (RocketMQError, BodyError, StoreError) as error:
            text = "not taken over from the master request=%s master=%s error=%s"
            self._outages.fails(log, (code,), text, code.name, master, error)
            return False
        if code is RequestCode.GET_ALL_TOPIC_CONFIG:  # what is in none of them has been deleted
            for topic in unknown:
                self._unknown.pop(topic, None)
        self._outages.works((code,))
        return True

    def _version_of(self, code: RequestCode) -> DataVersion | None:
        """Of the table that is asked for, where it has one."""
        if code is RequestCode.GET_ALL_TOPIC_CONFIG:
            return self._topics.data_version
        if code is RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            return self._groups.data_version
        return None

    async def _ask(self, master: str, code: RequestCode, known: DataVersion | None) -> Response:
        """Without a body: it has the version that is known. Raises ``RocketMQError``."""
        address, header = master, None
        if known is not None:
            header = KnownTableRequest(known=known.text)
        elif code is RequestCode.GET_ALL_CONSUMER_OFFSET:
            self._begun_anew.clear()
            header = KnownTableRequest(known=self._their_state)
        if code is RequestCode.GET_ALL_TOPIC_CONFIG:
            address = moved_port(master, -VIP_PORT_DISTANCE)
        try:
            response = await self._remoting.invoke(address, code, header, timeout=TIMEOUT_S)
        except ConnectError:
            if address == master:
                raise
            # only its normal port may be open to us
            response = await self._remoting.invoke(master, code, header, timeout=TIMEOUT_S)
        return response.check(address)

    async def _take_queue_ends(self, master: str) -> None:
        """Where queues end that the log has nothing of. What fails is tried again in the next
        round."""
        gone, code = self._store.gone_queues, RequestCode.GET_QUEUE_ENDS
        forgotten, topics = self._forgotten, self._topics.data_version

        def is_current() -> bool:
            """Nobody else leads since, it is the process that was asked first, and no topic was
            deleted meanwhile, say."""
            return (
                gone.may_take()
                and self._forgotten == forgotten
                and self._topics.data_version == topics
                and self._remoting.connected_to(master) is self._believed_over
            )

        gone.wanted = taken = False  # unless the log begins anew while it is asked
        try:
            taken = await take_queue_ends(self._store, self._remoting, master, is_current)
            if taken:
                await note_numbers(self._store, lambda: not gone.wanted)
        except (RocketMQError, BodyError, StoreError) as error:
            taken = False
            text = "not taken over from the master request=%s master=%s error=%s"
            self._outages.fails(log, (code,), text, code.name, master, error)
        else:
            self._outages.works((code,))
        finally:  # also where this is cancelled: whose role ends asks the next leader
            gone.wanted |= not taken

    def _sync_topics(self, response: Response) -> None:
        table = decode_body(TopicConfigTable, response.body)
        if table.data_version != self._topics.data_version:
            self._topics.replace(table)
            self._changed()

    def _sync_groups(self, response: Response) -> None:
        table = decode_body(SubscriptionGroupTable, response.body)
        if table.data_version != self._groups.data_version:
            self._groups.replace(table)
            self._changed()

    def _sync_delay_offsets(self, response: Response) -> None:
        self._progress.heard_delays(decode_body(DelayOffsetTable, response.body))

    async def _sync_offsets(self, response: Response) -> None:
        table = decode_body(LmqConsumerOffsetTable, response.body)
        told: AllOffsetsResponse = response.header
        if told.since is not None and told.since != self._their_state:
            return  # it was forgotten meanwhile: there is another master, or this broker is
        light = {key: {0: offset} for key, offset in table.lmq_offset_table.items()}
        rest = {} if told.since is None else self._theirs
        theirs = {**rest, **table.offset_table, **light}
        is_whole = told.since is None and _process_of(told.state) == _process_of(self._their_state)
        before_that = self._theirs if is_whole and told.state else {}
        self._theirs, self._their_state = theirs, told.state or ""
        self._accepted.heard(theirs)
        self._progress.heard_offsets(theirs)
        before = self._accepted.record()
        for number, (key, queues) in enumerate(theirs.items(), 1):
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in () if is_progress(group) else queues.items():
                if (
                    (topic, queue_id) not in self._begun_anew
                    and self._accepted.settled(key, queue_id, offset)
                    and self._offsets.get(group, topic, queue_id) != offset
                ):
                    self._offsets.commit(group, topic, queue_id, offset, limited=False)
            if number % _PER_TURN == 0:
                await asyncio.sleep(0)
        await self._remove_what_is_gone(before_that, theirs)
        if self._accepted.record() != before:
            self._accepted_changed()

    async def _remove_what_is_gone(self, before: Collection[str], theirs: Collection[str]) -> None:
        """Groups were deleted with their offsets. (What a master that was started again does not
        have it may have lost, and the original does not tell the one from the other.)"""
        removed: list[str] = []
        for some in slices(before, _PER_TURN):
            if self._theirs is not theirs:
                break  # it was forgotten meanwhile
            if gone := [key for key in some if key not in theirs]:
                self._offsets.remove(gone)
                self._accepted.forget(gone)
                removed += gone
            await asyncio.sleep(0)
        if removed:
            log.warning("offsets removed as at the master keys=%d %s", len(removed), removed[:20])

    # -- before it follows

    async def verify(self, ha_address: str) -> None:
        """The master has the last record of this slave. Raises ``ReplicationError`` when not, and
        ``RocketMQError`` when it cannot be asked."""
        master = self.master or moved_port(ha_address, -HA_PORT_DISTANCE)
        self._remoting.try_again(master)  # the next time would be seconds later
        first = await ask_for_last_record(self._store, self._remoting, master)
        if first.lacks:
            raise ReplicationError(
                f"{first.lacks}. The slave is ahead or has another history (or was away for so "
                "long that the master has deleted it). Nothing is overwritten: save what is needed "
                "from this slave, then start it with an empty store"
            )

    # -- requests

    def handlers(
        self, table: Mapping[RequestCode, Handler], fields: SendErrorFields
    ) -> dict[RequestCode, Handler]:
        """The table of the broker as it is on a slave; ``fields`` stand on every answer to a
        send."""
        return slave_table(table, fields, self.commit)

    def commit(self, request: UpdateConsumerOffsetRequest, _body: Body, _ctx: Context) -> Reply:
        """UPDATE_CONSUMER_OFFSET while this broker is no master."""
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        if not self._topics.has_queue(topic, queue_id, self._store.max_offset):
            return _DONE
        self._offsets.commit(group, topic, queue_id, request.commit_offset)
        if self._accepted.accept(f"{topic}{SEPARATOR}{group}", queue_id, request.commit_offset):
            self._accepted_changed()
        return _DONE


def _process_of(state: str | None) -> str:
    """Of a state that a master of ours tells of its offsets."""
    return (state or "").partition("-")[0]
