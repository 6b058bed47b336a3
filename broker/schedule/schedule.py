"""Delivering delayed messages (class ScheduleMessageService; ``broker-services.md`` §3).

All messages of a level wait equally long, so each queue is in the order of delivery and only its
first message counts (``level.py``). ``Schedule`` sleeps until the earliest of those is due. Nobody
has to wake it: what arrives in an empty queue is due one delay later at the soonest, so one look
per delay is never late.

What is due is stored as an ordinary message of its topic, in slices of about a millisecond; between
two slices all others have a turn. A message that cannot be stored now stops its level, which tries
again: the order within a level always holds. One that is refused for good goes to the dead letters
(``dead_letters``), and its level goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ...store.model.delay_levels import queue_of_level
from ...store.model.errors import StoreError
from ...store.model.status import PutResult, PutStatus
from ...store.queues.consume_queue_ext import is_ext_address
from ..sends.dead_letters import SCHEDULE_CONSUMER, dead_letters_of, tell_homeless
from ..sends.placement import Placement, put_copy
from ..sends.put_context import PutContext
from .level import Level, real_place
from .schedule_offsets import DelayOffsets

log: Final = logging.getLogger(__name__)

SLICE_S: Final = 0.001
RETRY_MS: Final = 100
_READ: Final = ("read",)
_LONGEST_SLEEP_S: Final = 1.0
"""The clock on the wall may be set while we sleep."""
_ENTRIES_PER_READ: Final = 64


class Schedule:
    """Service of a master: delivers delayed messages at their time."""

    def __init__(
        self,
        delays_ms: tuple[int, ...],
        offsets: DelayOffsets,
        context: PutContext,
        clock: Clock,
        *,
        consumer_stats: bool = True,
    ) -> None:
        """``consumer_stats``: count deliveries as gets of the group SCHEDULE_CONSUMER."""
        self._levels = [Level(number, delay_ms) for number, delay_ms in enumerate(delays_ms, 1)]
        self.offsets: Final = offsets
        self._store = context.store
        self._topics = context.topics
        self._stats = context.stats
        self._dead_letters = context.dead_letters
        self._clock = clock
        self._outages = Outages(clock)
        self._consumer_stats = consumer_stats
        self._next = 0

    def figures(self) -> dict[str, str]:
        """``delivered up to,end of the queue`` for every level in use, as in the runtime info."""
        return {
            f"scheduleMessageOffset_{level}": (
                f"{offset},{self._store.max_offset(TopicName.SCHEDULE, queue_of_level(level))}"
            )
            for level, offset in sorted(self.offsets.table().items())
        }

    async def run(self) -> None:
        self._add_levels_left()
        while True:
            wait_s = self.deliver_due()
            if wait_s > 0:
                await self._clock.sleep(min(wait_s, _LONGEST_SLEEP_S))
            else:
                await asyncio.sleep(0)

    def _add_levels_left(self) -> None:
        """Those of messages that wait in levels that are not configured any more; the original
        leaves them where they are."""
        self._levels = known = [level for level in self._levels if not level.is_left]
        store, topic, highest = self._store, TopicName.SCHEDULE, known[-1]
        left = [
            Level(number, highest.delay_ms, is_left=True)
            for number in sorted(queue_id + 1 for queue_id in store.queue_ids(topic))
            if number > highest.number
            and self.offsets.get(number) < store.max_offset(topic, queue_of_level(number))
        ]
        if left:
            log.warning(
                "delayed messages wait in levels that messageDelayLevel does not have any more, "
                "they come at their time levels=%s",
                ",".join(str(level.number) for level in left),
            )
            self._levels = known + left

    def deliver_due(self) -> float:
        """One slice of work. Returns in how many seconds there is more to do, 0 for at once."""
        end = self._clock.monotonic() + SLICE_S
        levels, first, now = self._levels, self._next, self._clock.time_ms()
        for position in range(first, first + len(levels)):
            level = levels[position % len(levels)]
            if level.is_due(now):
                try:
                    self._look(level, end)
                except StoreError as error:
                    self._say_unreadable(level, error)
                else:
                    self._outages.works(_READ, who=level.number)
                if self._clock.monotonic() >= end:
                    self._next = (position + 1) % len(
                        levels
                    )  # a level with much to do does not hold up the others
                    return 0.0
                now = self._clock.time_ms()
        return max(0, min([level.look_at for level in levels]) - now) / 1000

    def _look(self, level: Level, end: float) -> None:
        """Deliver what is due of a level, until the slice is over, and note when to look again."""
        offset = self.offsets.get(level.number)
        entries = self._store.entries.some(
            TopicName.SCHEDULE, level.queue_id, offset, _ENTRIES_PER_READ
        )
        now = level.look_at = self._clock.time_ms()
        if not entries:
            self._say_lost(level, offset)
            if not self._jump(level, offset):
                level.look_at = now + level.pause_ms
            return
        for phy_offset, size, entry_time in entries:
            message = None
            if is_ext_address(entry_time):
                message = self._message(phy_offset, size)
                entry_time = (
                    message.store_timestamp + level.delay_ms if message is not None else now
                )
            if (due := level.deliver_at(entry_time, now)) > now:
                level.look_at = due
                return
            message = message or self._message(phy_offset, size)
            if message is None and self._store.is_awaited(phy_offset, size):
                level.look_at = now + RETRY_MS
                return
            if message is None:
                level.lost += 1
            else:
                self._say_lost(level, offset)
                if not self._deliver(level, message, now):
                    level.look_at = now + RETRY_MS
                    return
            offset += 1
            self.offsets.set(level.number, offset)
            if self._clock.monotonic() >= end:
                return
            now = self._clock.time_ms()

    def _say_unreadable(self, level: Level, error: StoreError) -> None:
        level.look_at = self._clock.time_ms() + RETRY_MS
        self._outages.fails(
            log,
            _READ,
            "delayed messages cannot be read, their level waits for it level=%d reason=%s",
            level.number,
            error,
            who=level.number,
            level=logging.ERROR,
        )

    def _jump(self, level: Level, offset: int) -> bool:
        """Messages that expired before they were delivered are passed over; whether there are
        others to look at. A queue whose first message is damaged begins behind it: while something
        may be mended nothing has expired."""
        low = self._store.min_offset(TopicName.SCHEDULE, level.queue_id)
        if offset >= low or self._store.awaits_mending():
            return False
        log.error(
            "delayed messages have expired undelivered level=%d offsets=%d..%d",
            level.number,
            offset,
            low - 1,
        )
        self.offsets.set(level.number, low)
        return True

    def _message(self, phy_offset: int, size: int) -> MessageExt | None:
        """The record of an entry; None when it is lost (then something else may be in its
        place). What is damaged, be it the head, is noted: other replicas may have it."""
        record = self._store.read(phy_offset, size)
        if record is None:
            return None
        try:
            message = decode_record(
                record, check_crc=True
            )  # it gets a new CRC when it is stored again
        except RecordError as error:
            self._outages.occurs(
                log,
                ("record",),
                "delayed message cannot be read phy_offset=%d error=%s",
                phy_offset,
                error,
                level=logging.ERROR,
            )
            self._store.damage.note(phy_offset, size, str(error), "seen=schedule")
            return None
        is_it = message.topic == TopicName.SCHEDULE and message.store_size == size
        return message if is_it else None

    def _say_lost(self, level: Level, offset: int) -> None:
        """Once for all of them, when ``offset`` behind them is another one or the end."""
        if level.lost:
            lost = f"{offset - level.lost}..{offset - 1}"
            log.error(
                "delayed messages are lost, passed over level=%d count=%d offsets=%s",
                level.number,
                level.lost,
                lost,
            )
            level.lost = 0

    def _deliver(self, level: Level, message: MessageExt, now: int) -> bool:
        """Store a message where it was wanted, or among the dead letters. False when that has to be
        tried again."""
        place = real_place(message)
        if place is None:
            why = PutResult(PutStatus.MESSAGE_ILLEGAL, remark="it does not say where it is wanted")
            return self._give_up(level, message, dead_letters_of(""), why, now)
        topic, queue_id = place
        result = put_copy(
            self._store.put_message, message, Placement.as_it_is(message, topic, queue_id), now
        )
        if result.status.is_for_good:
            return self._give_up(level, message, dead_letters_of(topic), result, now)
        if result.status is not PutStatus.PUT_OK:
            self._say_failed(level, message, result)
            return False
        self._goes_on(level)
        self._count(level, topic, queue_id, result)
        return True

    def _give_up(
        self, level: Level, message: MessageExt, dead_letters: str, why: PutResult, now: int
    ) -> bool:
        passing = self._dead_letters.take(message, why, dead_letters, now)
        if passing is not None:
            self._say_failed(level, message, passing)
            return False
        self._goes_on(level)
        return True

    def _goes_on(self, level: Level) -> None:
        self._outages.works((level.number,))

    def _count(self, level: Level, topic: str, queue_id: int, result: PutResult) -> None:
        """As put, and as got out of the schedule topic by a group that stands for this service."""
        stats, known = self._stats, self._topics.get(topic)
        stats.stored(result, known, queue_id)
        if known is None:
            tell_homeless(self._outages, topic)
        if self._consumer_stats:
            got = stats.pull_counter(TopicName.SCHEDULE, SCHEDULE_CONSUMER, level.queue_id)
            got.pulls += 1
            got.messages += 1
            got.size_bytes += result.size

    def _say_failed(self, level: Level, message: MessageExt, result: PutResult) -> None:
        """The level waits until its first message can be stored."""
        self._stats.put_failed += 1
        self._outages.fails(
            log,
            (level.number,),
            "delayed message cannot be stored, its level waits for it level=%d status=%s %s "
            "message=%r",
            level.number, result.status.name, result.remark, message,
            level=logging.ERROR,
        )  # fmt: skip
