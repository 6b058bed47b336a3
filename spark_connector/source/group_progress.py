"""How far a stream is, published as the offsets of a consumer group (``commitOffsetsToGroup``), for
tools that show lag. Nobody reads it back: the checkpoint is what counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BlockingClock
from ..access.offsets import Offsets

__all__ = ["GroupAccess", "GroupProgress"]

log: Final = logging.getLogger(__name__)

_TOLD_AGAIN_S: Final = 60.0
"""A broker may have lost what it was told: its disk, or the last seconds before it was killed."""


class GroupAccess(Protocol):
    """What has to be asked (``BrokerAccess``). Everything raises ``RemotingError``,
    ``BrokerError``."""

    def register_group(self, broker_name: str) -> None: ...
    def commit(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class GroupProgress:
    """Of one running query."""

    def __init__(self, access: GroupAccess, clock: BlockingClock) -> None:
        self._access = access
        self._clock = clock
        self._began_at = clock.now()
        self._published: Offsets = {}
        self._known_on: set[str] = set()
        self._refused_on: set[str] = set()

    def publish(self, offsets: Offsets) -> None:
        """Tell every broker what is new to it, and all of it from time to time; ``offsets`` are all
        of the query."""
        if self._clock.now() - self._began_at >= _TOLD_AGAIN_S:
            self._began_at = self._clock.now()
            self._published.clear()
            self._known_on.clear()
        self._published = {q: at for q, at in self._published.items() if q in offsets}
        self._known_on &= {queue.broker_name for queue in offsets}
        news = {
            queue: offset
            for queue, offset in offsets.items()
            if self._published.get(queue) != offset
        }
        for name in sorted({queue.broker_name for queue in news}):
            its = {queue: offset for queue, offset in news.items() if queue.broker_name == name}
            try:
                self._register(name)
                self._access.commit(its)
            except (RemotingError, BrokerError) as error:
                log.warning(
                    "offsets of the group were not published on %s, the next batch tries again: %s",
                    name,
                    error,
                )
            else:
                self._published.update(its)

    def _register(self, broker_name: str) -> None:
        """A group that may not be made known has its offsets all the same: ``mqadmin
        consumerProgress`` finds them once somebody else makes it known."""
        if broker_name in self._known_on:
            return
        try:
            self._access.register_group(broker_name)
        except BrokerError as error:
            if broker_name not in self._refused_on:
                self._refused_on.add(broker_name)
                log.warning(
                    "the group was not made known on %s, mqadmin consumerProgress does not show it "
                    "there: %s",
                    broker_name,
                    error,
                )
        self._known_on.add(broker_name)
