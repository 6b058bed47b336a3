"""What was tried for one send, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import Attempt, SendFailed, SendTimedOut


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
