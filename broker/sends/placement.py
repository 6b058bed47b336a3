"""Where a message really goes: to its topic, or with a delay to the schedule topic first (class
CommitLog; ``broker-services.md`` §2.3). The first half of a transaction goes to the half topic,
whatever its delay: it is placed here when it is committed (``transaction_log``).

Not for the usual message: ``StoredProperties.rewrite`` tells those apart that have to be asked
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...remoting.protocol.message.properties import MessageError, PropertyName, tags_code_of
from ...remoting.protocol.message.sys_flag import MessageSysFlag, transaction_type
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import MessageExt
from ...store.model.delay_levels import delay_ms, queue_of_level
from ...store.model.put import PutMessage
from ...store.model.status import PutResult

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")
_DELAYABLE: Final = (MessageSysFlag.TRANSACTION_NOT, MessageSysFlag.TRANSACTION_COMMIT)
HALF_QUEUE_ID: Final = 0
_MOST_ATTEMPTS: Final = 2**31 - 1
_NOT_SEQUENCED: Final = ~MessageSysFlag.SEQUENCED
"""A copy is not what its producer has sent (``sequences.py``)."""


class Placement(NamedTuple):
    """What to hand to ``put_message``. ``tags_code`` is the time of delivery (ms) in the schedule
    topic."""

    topic: str
    queue_id: int
    properties: bytes
    tags_code: int
    sys_flag: int

    @property
    def is_scheduled(self) -> bool:
        return self.topic == TopicName.SCHEDULE

    @classmethod
    def as_it_is(
        cls, message: MessageExt, topic: str, queue_id: int, properties: bytes | None = None
    ) -> Placement:
        """Of a message that was read from the store, perhaps with other properties."""
        properties = message.raw_properties if properties is None else properties
        return cls(topic, queue_id, properties, tags_code_of(properties), message.sys_flag)


def put_copy(
    put: Callable[[PutMessage], PutResult],
    message: MessageExt,
    place: Placement,
    now_ms: int,
    *,
    attempts: int = 0,
) -> PutResult:
    """Store a message that was read from the store in another place, after so many more
    ``attempts`` to consume it, as far as a record can count them. ``put``:
    ``MessageStore.put_message`` or ``put_again``."""
    head = message.head
    copy = PutMessage(
        place.topic, place.queue_id, message.stored_body, place.properties, head.born_host,
        head.born_timestamp, now_ms,
        place.tags_code, head.flag, place.sys_flag & _NOT_SEQUENCED,
        min(head.reconsume_times + attempts, _MOST_ATTEMPTS),
    )  # fmt: skip
    return put(copy)


class Placements:
    """The rule for one broker. ``delays_ms``: level n waits item n - 1; there is at least one
    level."""

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms: Final = delays_ms

    def place(
        self,
        topic: str,
        queue_id: int,
        properties: Mapping[str, str],
        sys_flag: int,
        store_timestamp: int,
    ) -> Placement:
        """Of a message that is to be stored now: sent, given back, or committed.

        One with a delay level goes to the schedule topic and carries where it is really wanted; a
        level that is too high counts as the highest. Half messages and rolled back ones have no
        delay. Raises ``MessageError``.
        """
        level = delay_level(properties)
        if level <= 0 or transaction_type(sys_flag) not in _DELAYABLE:
            encoded = encoded_properties(properties)
            return Placement(topic, queue_id, encoded, tags_code_of(encoded), sys_flag)
        level = min(level, len(self._delays_ms))
        encoded = encoded_properties(
            {
                **properties,
                PropertyName.DELAY: str(level),
                PropertyName.REAL_TOPIC: topic,
                PropertyName.REAL_QID: str(queue_id),
            }
        )
        return Placement(
            TopicName.SCHEDULE,
            queue_of_level(level),
            encoded,
            store_timestamp + delay_ms(self._delays_ms, level),
            sys_flag,
        )


def delay_level(properties: Mapping[str, str]) -> int:
    """0 without one. Raises ``MessageError`` for what is no number."""
    text = properties.get(PropertyName.DELAY, "0")
    if _NUMBER.fullmatch(text) is None:
        raise MessageError(f"the property DELAY is the number of a delay level, not {text[:40]!r}")
    return int(text)


def encoded_properties(properties: Mapping[str, str]) -> bytes:
    """Pairs that were read from a message, joined again. How long they may be is for the store to
    say."""
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items()).encode()
