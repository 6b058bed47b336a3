"""Brokers that died, for whoever reads a topic and cannot know that some of it is missing. Ours:
the original forgets a broker, and its topics with it. Pure.

A broker is remembered when the last of its addresses goes without a word: its connection ended, or
it gave no sign of life for 120 s. It is forgotten when its master registers again, when it
unregisters, when somebody says so (``mqadmin deleteKvConfig -s LOST_BROKERS -k <name>``), and after
three days; also where too much would have to be kept. Nothing is persistent, as nothing is that
brokers register.

Asked for by requests that every name server knows, those for KV configuration: another one has no
such namespaces, and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ..client.cluster.lost_brokers import LOST_BROKERS, LOST_BROKERS_OF_TOPIC

__all__ = ["LostBrokers", "is_of_lost_brokers"]

log: Final = logging.getLogger(__name__)

KEPT_MS: Final = 3 * 24 * 3600 * 1000
MAX_LOST: Final = 100
MAX_LOST_TOPICS: Final = 100_000
"""Of all of them together: about 10 MB."""


class _Lost(NamedTuple):
    last_update_ms: int
    cluster: str | None
    topics: set[str]


class LostBrokers:
    """Of one name server; the oldest first."""

    def __init__(self) -> None:
        self._lost: dict[str, _Lost] = {}

    def remember(
        self, broker_name: str, cluster: str | None, topics: Iterable[str], last_update_ms: int
    ) -> None:
        """It is gone. What was lost longest ago is forgotten where that is too much."""
        self._lost.pop(broker_name, None)
        lost = _Lost(last_update_ms, cluster, set(topics))
        if len(lost.topics) > MAX_LOST_TOPICS:
            log.warning(
                "lost broker not remembered broker=%s topics=%d limit=%d",
                broker_name,
                len(lost.topics),
                MAX_LOST_TOPICS,
            )
            return
        self._lost[broker_name] = lost
        held = sum(len(each.topics) for each in self._lost.values())
        while len(self._lost) > MAX_LOST or held > MAX_LOST_TOPICS:
            oldest = next(iter(self._lost))
            held -= len(self._lost.pop(oldest).topics)
            log.warning("lost broker forgotten broker=%s reason=too many", oldest)

    def forget(self, broker_name: str) -> None:
        """It is here again, or has left for good."""
        self._lost.pop(broker_name, None)

    def forget_topic(self, topic: str, cluster: str | None = None) -> None:
        """It was deleted, everywhere or in one cluster."""
        for lost in self._lost.values():
            if cluster is None or lost.cluster == cluster:
                lost.topics.discard(topic)

    def expire(self, now_ms: int) -> None:
        """Forget what nobody has missed for three days."""
        for name in [n for n, each in self._lost.items() if each.last_update_ms + KEPT_MS < now_ms]:
            del self._lost[name]
            log.warning("lost broker forgotten broker=%s reason=three days", name)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """What a list of the namespace has; ``None`` for other namespaces, and for none."""
        if namespace == LOST_BROKERS_OF_TOPIC:
            missed: dict[str, list[str]] = {}
            for name, each in self._lost.items():
                for topic in each.topics:
                    missed.setdefault(topic, []).append(f"{name}={each.last_update_ms}")
            return {topic: ";".join(missed[topic]) for topic in sorted(missed)} or None
        if namespace != LOST_BROKERS or not self._lost:
            return None
        return {name: str(each.last_update_ms) for name, each in self._lost.items()}

    def value(self, namespace: str, key: str) -> str | None:
        """Of one broker, or of one topic; ``None`` where there is none."""
        if namespace == LOST_BROKERS_OF_TOPIC:
            return self._of_topic(key) or None
        return (self.table(namespace) or {}).get(key)

    def _of_topic(self, topic: str) -> str:
        return ";".join(
            f"{name}={each.last_update_ms}"
            for name, each in self._lost.items()
            if topic in each.topics
        )


def is_of_lost_brokers(namespace: str) -> bool:
    """Nobody may write there; deleting forgets."""
    return namespace in (LOST_BROKERS, LOST_BROKERS_OF_TOPIC)
