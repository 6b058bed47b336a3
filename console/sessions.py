"""Who has signed in. In memory only: they end with the console, when nobody has used them for half
an hour, and after eight hours."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from typing import Final

from ..remoting.clock import Clock
from ..remoting.signature import Credentials

IDLE_S: Final = 30 * 60.0
LONGEST_S: Final = 8 * 3600.0
MOST_SESSIONS: Final = 200
"""The one that was unused for longest makes room."""
ATTEMPTS: Final = 10
ATTEMPTS_S: Final = 60.0
"""Of those who failed to sign in, whoever they were, so many in so many seconds."""


class Session:
    """One sign-in. ``credentials``: of the cluster's account; ``has_token``: it knew the console's
    token."""

    def __init__(self, credentials: Credentials | None, has_token: bool, now: float) -> None:
        self.key: Final = secrets.token_urlsafe(32)
        self.csrf: Final = secrets.token_urlsafe(32)
        self.credentials: Final = credentials
        self.has_token: Final = has_token
        self.began: Final = now
        self.used = now

    @property
    def until(self) -> float:
        """When it ends where nobody uses it any more, in seconds of the clock."""
        return min(self.used + IDLE_S, self.began + LONGEST_S)

    @property
    def name(self) -> str:
        """For the page and the audit log."""
        return self.credentials.access_key if self.credentials else "token"

    def __repr__(self) -> str:
        return f"Session({self.name!r})"


class Sessions:
    """All of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._failures: list[float] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, credentials: Credentials | None, *, has_token: bool) -> Session:
        self._forget_old()
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)
        session = Session(credentials, has_token, self._clock.monotonic())
        self._sessions[session.key] = session
        return session

    def find(self, key: str | None, *, use: bool = True) -> Session | None:
        """The session of a cookie. ``use``: somebody is there, so that it goes on."""
        self._forget_old()
        session = self._sessions.get(key or "")
        if session is not None and use:
            session.used = self._clock.monotonic()
            self._sessions.move_to_end(session.key)
        return session

    def end(self, session: Session) -> None:
        self._sessions.pop(session.key, None)

    def accounts(self) -> set[Credentials]:
        """Of those that are signed in."""
        self._forget_old()
        return {each.credentials for each in self._sessions.values() if each.credentials}

    async def first_due(self) -> None:
        """Wait until the first of those that there are would end. One that begins meanwhile does
        not end sooner."""
        first = min(session.until for session in self._sessions.values())
        await self._clock.sleep(first - self._clock.monotonic())

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for session in list(self._sessions.values()):
            if now >= session.until:
                del self._sessions[session.key]

    # --- guessing
    # ----------------------------------------------------------------------------------------------

    def may_try(self) -> bool:
        """Whether signing in is looked at; not for a while after many failures. An attempt is one
        until ``forgive``: however many come at once, not more are looked at."""
        now = self._clock.monotonic()
        self._failures = [each for each in self._failures if now - each < ATTEMPTS_S]
        if len(self._failures) >= ATTEMPTS:
            return False
        self._failures.append(now)
        return True

    def forgive(self) -> None:
        """The attempt did not fail."""
        if self._failures:
            self._failures.pop()


def same(given: str, expected: str) -> bool:
    """In a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(), expected.encode())
