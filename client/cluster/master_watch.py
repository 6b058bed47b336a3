"""Finding the master of today (dledger.md §5.6).

Routes are asked for again every 30 seconds. Whoever was refused by a master, or finds none in the
route, wants to know sooner: a group elects a new one within seconds, and it is in the route as soon
as it is elected. So the name servers are asked at once, then at gaps that are an eighth of the time
that has passed, at least 20 ms and at most a quarter of a second, by one task per topic however
many wait, and only while somebody does. (The original's producers wait for the regular look.)
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

import msgspec

from ...remoting.clock import Clock
from ...remoting.errors import BrokerError, ConnectError, RemotingError, RocketMQError
from ...remoting.protocol.codes import ResponseCode
from ...remoting.services import TaskSet
from .route_cache import RouteCache

log: Final = logging.getLogger(__name__)

FIRST_GAP_S: Final = 0.02
LONGEST_GAP_S: Final = 0.25
GAP_GROWTH: Final = 1.125
"""18 questions in the first 1.2 seconds."""
FIRST_BACK_OFF_S: Final = 0.05
LONGEST_BACK_OFF_S: Final = 0.5
"""Of a broker that answers that it is not the master; it doubles."""
_REMEMBERED_S: Final = 1.0
"""After so long without a refusal or a question the gaps are short again."""
_MAX_REFUSALS: Final = 1000
_SLOT_S: Final = 0.01
_GROUP_BUSY: Final = "[PC_SYNCHRONIZED]"


def denies_mastership(error: RocketMQError) -> bool:
    """A broker answered that it is not the master of its group (14), or that the group has none at
    present (1, with a text that the original also has for a slow disk). What it took before it was
    deposed may be committed by the next one all the same."""
    return isinstance(error, BrokerError) and (
        error.code == ResponseCode.SERVICE_NOT_AVAILABLE
        or (error.code == ResponseCode.SYSTEM_ERROR and _GROUP_BUSY in (error.remark or ""))
    )


def was_not_done(error: RocketMQError) -> bool:
    """Nothing was sent, or nothing came of it as far as the broker can tell: asking another master
    instead is what a sender would do, too."""
    return isinstance(error, ConnectError) or denies_mastership(error)


class _Gaps(msgspec.Struct, gc=False):
    """Times that may only be so close. ``not_before`` in seconds of a monotonic clock."""

    first: float
    growth: float
    longest: float
    gap: float = 0.0
    not_before: float = 0.0

    def next(self, now: float) -> None:
        """It has happened now."""
        fresh = now - self.not_before > _REMEMBERED_S
        grown = min(self.growth * self.gap, self.longest)
        self.gap = self.first if fresh or not self.gap else grown
        self.not_before = now + self.gap


def _questions() -> _Gaps:
    return _Gaps(FIRST_GAP_S, GAP_GROWTH, LONGEST_GAP_S)


def _refusals() -> _Gaps:
    return _Gaps(FIRST_BACK_OFF_S, 2.0, LONGEST_BACK_OFF_S)


class MasterWatch:
    """Asks for routes while somebody waits for them to change, and knows who has just refused."""

    def __init__(self, routes: RouteCache, clock: Clock, tasks: TaskSet) -> None:
        self._routes = routes
        self._clock = clock
        self._tasks = tasks
        self._alarms: dict[int, tuple[asyncio.Event, asyncio.Task[None]]] = {}
        self._waiting: dict[str, int] = {}
        """How many wait, by topic."""
        self._asking: set[str] = set()
        self._asked: dict[str, _Gaps] = {}
        self.refusals: dict[str, _Gaps] = {}
        """By address; empty as long as nobody refuses."""
        routes.on_change.append(self._wake)

    # --- who refuses
    # ----------------------------------------------------------------------------------------------

    def refused(self, address: str) -> None:
        """The broker answered that it is not the master, or that its group is electing one."""
        now = self._clock.monotonic()
        if len(self.refusals) >= _MAX_REFUSALS:
            self.refusals.clear()
        gaps = self.refusals.setdefault(address, _refusals())
        if now >= gaps.not_before:  # answers to what was sent together are one refusal
            gaps.next(now)

    def back_off(self, address: str) -> float:
        """Seconds for which it would answer the same again."""
        gaps = self.refusals.get(address)
        if gaps is None:
            return 0.0
        left = gaps.not_before - self._clock.monotonic()
        if left < -_REMEMBERED_S:
            del self.refusals[address]
        return max(0.0, left)

    # --- who is it now
    # ----------------------------------------------------------------------------------------------

    def doubt(self, topic: str) -> None:
        """The route may be out of date: ask for it soon, and tell nobody how that went. For every
        failure, however many there are."""
        if topic not in self._asking:
            self._spawn(topic)

    async def changed(self, topic: str, seconds: float) -> None:
        """Wait until a route or an address is another one, but no longer than that; the route of
        ``topic`` is asked for meanwhile."""
        event = self._event_within(seconds)
        self._waiting[topic] = self._waiting.get(topic, 0) + 1
        self.doubt(topic)
        try:
            await event.wait()
        finally:
            self._waiting[topic] -= 1
            if not self._waiting[topic]:
                del self._waiting[topic]

    def _event_within(self, seconds: float) -> asyncio.Event:
        """Those whose times are the same, but for a hundredth of a second, share one: thousands of
        sends may wait."""
        slot = math.ceil((self._clock.monotonic() + seconds) / _SLOT_S)
        if slot not in self._alarms:
            sleep = self._clock.sleep(slot * _SLOT_S - self._clock.monotonic())
            task = self._tasks.spawn(sleep, name="wait for a master")
            self._alarms[slot] = asyncio.Event(), task
            task.add_done_callback(lambda _: self._ring(slot))  # when it is cancelled, too
        return self._alarms[slot][0]

    def _ring(self, slot: int) -> None:
        if (alarm := self._alarms.pop(slot, None)) is not None:
            alarm[0].set()

    def _wake(self, _topic: str) -> None:
        alarms, self._alarms = self._alarms, {}
        for event, task in alarms.values():
            event.set()
            task.cancel()

    def _spawn(self, topic: str) -> None:
        self._asking.add(topic)
        self._tasks.spawn(self._ask(topic), name=f"new route of {topic}")

    async def _ask(self, topic: str) -> None:
        try:
            while True:
                gaps = self._asked.setdefault(topic, _questions())
                if (wait := gaps.not_before - self._clock.monotonic()) > 0:
                    await self._clock.sleep(wait)
                gaps.next(self._clock.monotonic())
                try:
                    await self._routes.refresh(topic)
                except (RemotingError, BrokerError) as error:
                    log.debug("route not known topic=%s error=%s", topic, error)
                if topic not in self._waiting:
                    return
        finally:
            self._asking.discard(topic)
            self._forget_old()

    def _forget_old(self) -> None:
        """Topics that nobody has asked for lately."""
        if not self._asking:
            now = self._clock.monotonic()
            self._asked = {
                topic: gaps
                for topic, gaps in self._asked.items()
                if now - gaps.not_before <= _REMEMBERED_S
            }
