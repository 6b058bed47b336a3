"""Refusing messages while the broker cannot keep up (class BrokerFastFailure;
``broker-services.md`` §9.1).

There is no queue of requests here: what makes senders wait is the disk, a replica, or the event
loop itself. While the oldest send that has no answer yet is older than
``waitTimeMillsInSendQueue``, or the loop is late by so much twice in a row (once may be a pause),
new messages are answered SYSTEM_BUSY. Those that wait are stored already, and get their own answer.

Nothing is asked per message: a service looks 20 times a second, and closes the gate or opens it.
It rests while nothing is stored and nobody waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..config.config import BrokerConfig
from .send_gate import SendGate

log: Final = logging.getLogger(__name__)

LOOK_S: Final = 0.05
REST_S: Final = 0.5
"""So late it may see that somebody sends again."""
_TEXT: Final = (
    "broker busy, start flow control for a while, period in queue: %dms, size of queue: %d"
)


class Waits(Protocol):
    """Somewhere sends wait for their answer: the flush, the replication."""

    @property
    def waiting(self) -> int: ...

    @property
    def oldest_wait_s(self) -> float: ...


class FastFailure:
    """Service. It alone says to the ``gate`` that the broker is busy."""

    def __init__(
        self,
        config: BrokerConfig,
        waits: Sequence[Waits],
        clock: Clock,
        gate: SendGate,
        page_cache_busy_ms: Callable[[], int],
        stored: Callable[[], int],
    ) -> None:
        """``page_cache_busy_ms``: ``osPageCacheBusyTimeOutMills``, the lateness of the loop that
        means more than a queue; ``stored``: where the log ends."""
        self._config = config
        self._waits = waits
        self._clock = clock
        self._outages = Outages(clock)
        self._gate = gate
        self._page_cache_busy_ms = page_cache_busy_ms
        self._stored = stored
        self._lags_s = (0.0, 0.0)

    async def run(self) -> None:
        before, end, pause = self._clock.monotonic(), self._stored(), LOOK_S
        while True:
            await self._clock.sleep(pause)
            now = self._clock.monotonic()
            self.look(now - before - pause)
            before, seen, end = now, end, self._stored()
            rests = end == seen and not self.waiting and self._gate.busy is None
            pause = REST_S if rests else LOOK_S

    @property
    def lag_ms(self) -> int:
        """How late the loop was when it was looked at last."""
        return int(self._lags_s[-1] * 1000)

    @property
    def waiting(self) -> int:
        """Sends without an answer."""
        return sum(each.waiting for each in self._waits)

    @property
    def oldest_wait_ms(self) -> int:
        """The age of the oldest of them."""
        return int(max((each.oldest_wait_s for each in self._waits), default=0.0) * 1000)

    def look(self, lag_s: float) -> None:
        """Decide; ``lag_s`` is how late this call comes."""
        self._lags_s = (self._lags_s[-1], max(0.0, lag_s))
        remark = self._verdict() if self._config.broker_fast_failure_enable else None
        if remark is not None and self._gate.busy is None:
            self._outages.fails(log, ("busy",), "messages are refused: %s", remark)
        elif remark is None and self._gate.busy is not None:
            self._outages.works(("busy",))
        if remark != self._gate.busy:
            self._gate.refuse(remark)

    def _verdict(self) -> str | None:
        lag_ms = int(min(self._lags_s) * 1000)
        if lag_ms >= self._page_cache_busy_ms():
            return "[PCBUSY_CLEAN_QUEUE]" + _TEXT % (lag_ms, self.waiting)
        oldest_ms = max(lag_ms, self.oldest_wait_ms)
        if oldest_ms >= self._config.wait_time_mills_in_send_queue:
            return "[TIMEOUT_CLEAN_QUEUE]" + _TEXT % (oldest_ms, self.waiting)
        return None
