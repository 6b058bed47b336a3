"""Whether what is found is all that there is to read.

A broker that is down is in no answer of the name servers soon afterwards, and a read of what is
left looks like a complete one. So what is found is held against all that is known otherwise: what
the user expects, what name servers and the order configuration tell, and, for a stream, its
checkpoint (``stream_offsets.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.errors import CoverageError
from ..access.options import SourceOptions

__all__ = ["CoverageAccess", "check_coverage", "not_covered", "report"]

log: Final = logging.getLogger(__name__)


class CoverageAccess(Protocol):
    """What has to be asked (``BrokerAccess``)."""

    def told_topics(self, pattern: str) -> Iterable[str]:
        """Topics that somebody tells of. Raises ``RemotingError``, ``BrokerError``."""
        ...

    def told_queues(self, topics: Iterable[str]) -> Mapping[MessageQueue, str]:
        """Queues that somebody tells of, and who. Raises ``RemotingError``, ``BrokerError``."""
        ...


def check_coverage(
    options: SourceOptions, access: CoverageAccess, queues: Collection[MessageQueue]
) -> None:
    """Raises ``CoverageError`` where ``queues`` are not all, or warns (``failOnDataLoss=false``);
    ``RemotingError``, ``BrokerError``."""
    report(options, not_covered(options, access, queues))


def not_covered(
    options: SourceOptions, access: CoverageAccess, queues: Collection[MessageQueue]
) -> list[str]:
    """What is missing of ``queues``, in words. Raises ``RemotingError``, ``BrokerError``."""
    topics = topics_of(options, queues)
    missing = options.expected.missing(topics, queues)
    if options.assigned:  # says itself which queues
        return missing
    if options.topic_pattern is not None:  # nobody lists what only a missing broker has
        topics = list(dict.fromkeys((*topics, *access.told_topics(options.topic_pattern))))
    there = {(queue.topic, queue.broker_name) for queue in queues}  # these tell their queues
    absent = {
        (queue.topic, queue.broker_name): by
        for queue, by in access.told_queues(topics).items()
        if (queue.topic, queue.broker_name) not in there
        and not options.expected.is_gone(queue.broker_name)
    }
    return missing + [
        f"the topic {topic} is not on the broker {broker_name} at present, but {by} tells of it"
        for (topic, broker_name), by in sorted(absent.items())
    ]


def topics_of(options: SourceOptions, queues: Iterable[MessageQueue]) -> list[str]:
    """The topics of the query: those that are named, of a pattern those that are found."""
    named = (*options.topics, *(each.topic for each in options.assigned))
    return list(dict.fromkeys(named or sorted(queue.topic for queue in queues)))


def report(options: SourceOptions, missing: Iterable[str]) -> None:
    """Raises ``CoverageError`` where something is missing, or warns (``failOnDataLoss=false``)."""
    if not (what := "; ".join(missing)):
        return
    if options.fail_on_data_loss:
        raise CoverageError(what)
    log.warning("%s: only the rest is read (failOnDataLoss=false)", what)
