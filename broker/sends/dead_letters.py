"""Where messages go that this broker took once and cannot store where they belong, whatever it
waits for.

Such a refusal is for good (``PutStatus.is_for_good``): a limit that was lowered since, say. Trying
again for ever would stop everybody behind the message, so it is stored elsewhere, as it is:

=========================  ======================================================================
a retry of a group         ``%DLQ%group``, where messages go that the group could not consume
any other delayed message  ``%DLQ%SCHEDULE_CONSUMER``; REAL_TOPIC and REAL_QID say where it was
                           wanted
half a transaction         TRANS_CHECK_MAX_TIME_TOPIC, where those go that nobody decides
=========================  ======================================================================

``maxMessageSize`` and the limits of ``multi_dispatch`` do not count there. What is refused even so
(a record longer than a file of the log, say) is skipped: it stays in the log until it expires, and
an administrator finds it by the id that the log line tells. Both are counted and logged, each
message once.
"""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.outages import Outages
from ...remoting.protocol.message.topic_names import (
    dlq_topic,
    group_of_retry_topic,
    is_lmq_topic,
    topic_error,
)
from ...remoting.protocol.record.decode import MessageExt
from ...store.message_store import MessageStore
from ...store.model.status import PutResult, PutStatus
from ..state.topics import Topics
from ..stats.broker_stats import BrokerStats
from .placement import Placement, put_copy

log: Final = logging.getLogger(__name__)

SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"
"""The group that stands for the delivery of delayed messages; the name is reserved, as in the
original."""
_QUEUE_ID: Final = 0


def dead_letters_of(topic: str) -> str:
    """The dead letter queue for a message that waited for its time and is refused by ``topic``."""
    group = group_of_retry_topic(topic)
    return dlq_topic(SCHEDULE_CONSUMER if group is None else group)


class DeadLetters:
    """Takes what was refused for good."""

    def __init__(self, store: MessageStore, topics: Topics, stats: BrokerStats) -> None:
        self._store: Final = store
        self._topics: Final = topics
        self._stats: Final = stats

    def take(
        self,
        message: MessageExt,
        why: PutResult,
        topic: str,
        now_ms: int,
        properties: bytes | None = None,
    ) -> PutResult | None:
        """Store a message in ``topic``, or skip it: then it is done with, and the result is None.
        Else the refusal passes, nothing has happened, and it has to be tried again.

        ``properties``: to be stored in place of the message's own, unless they are too long.
        """
        if topic_error(topic) is not None:
            topic = dlq_topic(SCHEDULE_CONSUMER)
        place = self._topics.create_if_possible(topic)
        result = self._put(message, topic, properties or message.raw_properties, now_ms)
        if result.status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
            result = self._put(message, topic, message.raw_properties, now_ms)
        if result.status is PutStatus.PUT_OK:
            self._stats.stored(result, place, _QUEUE_ID)
            self._stats.dead_letters += 1
            log.error(
                "message refused for good, it is a dead letter now topic=%s offset=%d "
                "phy_offset=%d status=%s %s message=%r",
                topic, result.queue_offset, message.commit_log_offset, why.status.name, why.remark,
                message,
            )  # fmt: skip
        elif result.status.is_for_good:
            self._skip(message, why, f"{topic} refuses it too: {result.remark}")
        else:
            return result
        return None

    def _put(self, message: MessageExt, topic: str, properties: bytes, now_ms: int) -> PutResult:
        return put_copy(
            self._store.put_again,
            message,
            Placement.as_it_is(message, topic, _QUEUE_ID, properties),
            now_ms,
        )

    def _skip(self, message: MessageExt, why: PutResult, problem: str) -> None:
        self._stats.skipped_messages += 1
        log.error(
            "message refused for good and SKIPPED, it is only in the commit log until that "
            "expires: mqadmin queryMsgById -i "
            "%s phy_offset=%d status=%s %s (%s) message=%r",
            self._store.message_id(message.commit_log_offset), message.commit_log_offset,
            why.status.name, why.remark,
            problem, message,
        )  # fmt: skip


def tell_given_up(outages: Outages, group: str, message: str) -> None:
    """A group has tried a message as often as it wanted: a line a minute, which the original does
    not have."""
    outages.occurs(
        log,
        ("given up", group),
        "a message was tried often enough, and is in %s now group=%s message=%s",
        dlq_topic(group),
        group,
        message,
    )


def tell_homeless(outages: Outages, topic: str) -> None:
    """A message that waited, for its time or its producer's word, was stored in a topic that was
    deleted meanwhile: it is not lost, but nobody is given it."""
    if not is_lmq_topic(topic):
        outages.occurs(
            log,
            ("no topic", topic),
            "a message that waited is stored in a topic that was deleted, nobody is given it "
            "before the topic is made again topic=%s",
            topic,
        )
