"""When a delayed message is due, and where it goes then (class ScheduleMessageService;
``broker-services.md`` §3). Pure: times (ms) go in.

A message with delay level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX; its consume queue entry
has the time of delivery (ms) in the place of the tags code.
"""

from __future__ import annotations

from typing import Final

from ...remoting.protocol.message.properties import PropertyName, find_property
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt
from ...store.model.delay_levels import queue_of_level
from ...store.queues.consume_queues import topic_problem

CLOCK_TOLERANCE_MS: Final = 1000
_SHORTEST_LOOK_MS: Final = 20
"""For levels without any delay."""
_REAL_TOPIC: Final = PropertyName.REAL_TOPIC.encode()
_REAL_QID: Final = PropertyName.REAL_QID.encode()


class Level:
    """One delay level. ``look_at`` (ms) is when it has to be looked at next; it is never more than
    one delay away, so a time further off says that the clock was set back."""

    __slots__ = ("delay_ms", "is_left", "look_at", "lost", "number", "pause_ms", "queue_id")

    def __init__(self, number: int, delay_ms: int, *, is_left: bool = False) -> None:
        """``is_left``: ``messageDelayLevel`` does not have it any more, and how long it was nobody
        knows; ``delay_ms`` is that of the highest level."""
        self.number: Final = number
        self.is_left: Final = is_left
        self.queue_id: Final = queue_of_level(number)
        self.delay_ms: Final = delay_ms
        self.pause_ms: Final = max(delay_ms, _SHORTEST_LOOK_MS)
        self.look_at: int = 0
        self.lost: int = 0
        """Messages passed over, the last ones of the queue so far, that are not where their entries
        say."""

    def is_due(self, now: int) -> bool:
        return not now < self.look_at <= now + self.pause_ms + CLOCK_TOLERANCE_MS

    def deliver_at(self, entry_time: int, now: int) -> int:
        """When a message is due. One that is further away than the level's delay (the level was
        longer once, or the clock was set back) is due now, as in the original; there a clock that
        goes back by a millisecond is enough."""
        if self.is_left:
            return entry_time
        return now if entry_time > now + self.delay_ms + CLOCK_TOLERANCE_MS else entry_time


def real_place(message: MessageExt) -> tuple[str, int] | None:
    """Topic and queue that a message was sent to; None when it does not say, or says the topic of
    half messages, where the original never delivers to."""
    raw = message.raw_properties
    topic, queue_id = find_property(raw, _REAL_TOPIC), find_property(raw, _REAL_QID)
    if topic is None or queue_id is None or not queue_id.isdigit() or len(queue_id) > 10:
        return None
    name, number = topic.decode("utf-8", "replace"), int(queue_id)
    if name == TopicName.TRANS_HALF or topic_problem(name, number) is not None:
        return None
    return name, number
