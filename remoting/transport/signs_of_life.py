"""Whether the peer of a connection is still there, and whether anybody uses the connection. Pure:
times are given.

Two clocks: whole seconds of house-keeping for what is idle, and the event loop's, by which
deadlines of requests are.
"""

from __future__ import annotations


class SignsOfLife:
    """``heard`` and ``spoke`` are set when something comes and when a request leaves."""

    __slots__ = (
        "_idle_s",
        "_last_heard",
        "_last_traffic",
        "_silence_s",
        "_unanswered_since",
        "heard",
        "spoke",
    )

    def __init__(
        self, now: float, loop_now: float, *, idle_s: float, silence_s: float | None
    ) -> None:
        """``idle_s``: how long nothing may pass; ``silence_s``: how long a peer may say nothing at
        all before a request that it does not answer in time tells that it is gone (``None``: for
        ever)."""
        self.heard: bool = True
        self.spoke: bool = False
        self._idle_s = idle_s
        self._silence_s = silence_s
        self._last_traffic = now
        self._last_heard = loop_now
        self._unanswered_since: float | None = None

    def idle(self, now: float, loop_now: float) -> float | None:
        """Asked once a second: for how many seconds nothing has passed in either direction, when
        that is too long."""
        if not (self.heard or self.spoke):
            silent = now - self._last_traffic
            return silent if silent >= self._idle_s else None
        if self.heard:
            self._last_heard, self._unanswered_since = loop_now, None
        self.heard = self.spoke = False
        self._last_traffic = now
        return None

    def silence(self, begun: float, loop_now: float) -> float | None:
        """Requests were given up, the first of which was sent at ``begun``: for how many seconds
        nothing at all has come while requests waited, when that is too long. The network may be cut
        then, and the connection would stand open for minutes."""
        if self.heard or self._silence_s is None:
            self._unanswered_since = None
            return None
        since = self._unanswered_since = min(begun, self._unanswered_since or begun)
        silent = loop_now - max(since, self._last_heard)
        return silent if silent >= self._silence_s else None
