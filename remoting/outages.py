"""What fails again and again, told without a flood: a line when it begins, one a minute while it
lasts, one when it is over.

::

    outages = Outages(clock)
    try:
        ...
    except RemotingError as error:
        outages.fails(log, ("heartbeat", address), "heartbeat failed broker=%s error=%s", address,
                      error)
    else:
        outages.works(("heartbeat", address))

Pure: time comes from the clock that is passed in.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

from .clock import Clock

__all__ = ["AGAIN_S", "Cause", "Outages", "without_figures"]

AGAIN_S: Final = 60.0
MOST_CAUSES: Final = 1000
"""Peers name some of them: the one that was told of longest ago is forgotten."""

_MOST_CHARS: Final = 200
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))

Cause = tuple[Hashable, ...]
"""What fails, in words that stay the same: not with the text of the error."""


def without_figures(text: str) -> str:
    """The text of an error as part of a cause: seconds, offsets and ports make no other one of
    it."""
    return text[:_MOST_CHARS].translate(_NO_DIGITS)


class Outages:
    """The outages that somebody has at present. Not for several threads at a time.

    Of one cause there are at most a beginning and an end in a minute, however often it comes and
    goes: what begins again sooner is only told of when it still lasts then.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Cause, _Outage] = {}

    def fails(
        self,
        log: logging.Logger,
        cause: Cause,
        message: str,
        *args: object,
        who: Hashable = None,
        level: int = logging.WARNING,
    ) -> None:
        """It has failed, perhaps once more. ``who``: of several that a cause makes fail at a time,
        such as all queues of a broker; it is over when each of them works."""
        now, outage = self._clock.monotonic(), self._get_or_create(cause)
        if not outage.who:
            outage.since, outage.times, outage.is_told = now, 0, False
        outage.who.add(who)
        outage.times += 1
        outage.log, outage.text = log, (message, args)
        if now - outage.told_at >= AGAIN_S:
            self._is_told(cause, outage, now)
            if not outage.is_told:
                outage.is_told = True
                log.log(level, message, *args)
            else:
                outage.tell(level, "still", now)

    def works(self, cause: Cause, *, who: Hashable = None) -> None:
        """It works. Nothing happens where nothing has failed."""
        outage = self._known.get(cause)
        if outage is None or who not in outage.who:
            return
        outage.who.discard(who)
        if not outage.who and outage.is_told:
            outage.tell(logging.INFO, "over", self._clock.monotonic())

    def all_work(self, *first: Hashable) -> None:
        """Every cause that begins so is over, whoever failed by it."""
        for cause, outage in self._known.items():
            if outage.who and cause[: len(first)] == first:
                outage.who.clear()
                if outage.is_told:
                    outage.tell(logging.INFO, "over", self._clock.monotonic())

    def occurs(
        self,
        log: logging.Logger,
        cause: Cause,
        message: str,
        *args: object,
        level: int = logging.WARNING,
        exc_info: BaseException | None = None,
    ) -> None:
        """What has no end that could be seen, such as wrong requests of a peer: a line for the
        first, then one a minute at most, which says how many there were since the line before."""
        now, outage = self._clock.monotonic(), self._get_or_create(cause)
        outage.times += 1
        if now - outage.told_at >= AGAIN_S:
            self._is_told(cause, outage, now)
            times, outage.times = outage.times, 0
            if times > 1:
                message, args = message + " times=%d", (*args, times)
            log.log(level, message, *args, exc_info=exc_info)

    def ends(self, cause: Cause, *, who: Hashable = None) -> None:
        """``who`` is not concerned any more: it has neither failed nor worked."""
        outage = self._known.get(cause)
        if outage is not None:
            outage.who.discard(who)

    def _is_told(self, cause: Cause, outage: _Outage, now: float) -> None:
        """Who is told of last is forgotten last."""
        outage.told_at = now
        self._known[cause] = self._known.pop(cause)

    def _get_or_create(self, cause: Cause) -> _Outage:
        outage = self._known.get(cause)
        if outage is None:
            if len(self._known) >= MOST_CAUSES:
                del self._known[next(iter(self._known))]
            outage = self._known[cause] = _Outage()
        return outage


class _Outage:
    __slots__ = ("is_told", "log", "since", "text", "times", "told_at", "who")

    def __init__(self) -> None:
        self.who: set[Hashable] = set()
        """Who fails; empty: it is over."""
        self.since = 0.0
        self.times = 0
        self.told_at = float("-inf")
        self.is_told = False
        """A line has told that this one began."""
        self.log: logging.Logger | None = None
        self.text: tuple[str, tuple[object, ...]] = ("", ())

    def tell(self, level: int, word: str, now: float) -> None:
        assert self.log is not None
        message, args = self.text
        lasted_s = now - self.since
        text = message % args
        self.log.log(level, "%s: %s lasted_s=%.0f times=%d", word, text, lasted_s, self.times)
