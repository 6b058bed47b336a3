"""What was tried for one send, and what came of it; and for how long. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...remoting.clock import Clock
from ..errors import Attempt, SendFailed, SendTimedOut

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5


class Patience:
    """Attempts beyond those that are allowed anyway, ``until`` a time (seconds of the monotonic
    clock); the pauses in front of them grow."""

    __slots__ = ("_clock", "_pause", "_until")

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock = clock
        self._until = until
        self._pause = _FIRST_PAUSE_S

    async def another(self) -> bool:
        """Rest; whether there is one more attempt then."""
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE_S)
        if self._clock.monotonic() + pause >= self._until:
            return False
        await self._clock.sleep(pause)
        return True


class Tried:
    """The attempts of one send so far."""

    attempts: tuple[Attempt, ...] = ()
    _waited: Mapping[str, tuple[float, Attempt | None]] = MappingProxyType({})
    """By broker: when it was asked first, and the last that came of it."""

    def failed(self, attempt: Attempt, began: float, *, waits: bool) -> int:
        """How many attempts this one uses up; all that wait for one broker are one that uses up
        none. ``began``: seconds since the send began."""
        if waits:
            name = attempt.broker_name
            first, before = self._waited.get(name, (began, None))
            attempt = attempt._replace(seconds=began + attempt.seconds - first)
            self.attempts = tuple(each for each in self.attempts if each is not before)
            self._waited = {**self._waited, name: (first, attempt)}
        self.attempts += (attempt,)
        return 0 if waits else 1

    def error(
        self, topic: str, *, in_time: bool, told: str = "", in_doubt: bool = True
    ) -> SendFailed:
        """``told``, ``in_doubt``: see ``SendFailed``."""
        last = self.attempts[-1].error if self.attempts else None
        in_time = in_time and not isinstance(last, TimeoutError)
        kind = SendFailed if in_time else SendTimedOut
        error = kind(topic, self.attempts, told, in_doubt=in_doubt)
        error.__cause__ = last
        return error
