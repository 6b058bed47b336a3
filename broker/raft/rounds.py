"""Rounds of a leader's pushes: with many senders that wait for their answers, one push serves
nearly all of them. Without I/O.

Who is told that a message is committed mostly sends the next one at once. Left alone, senders fall
into halves: one waits for the push that is under way, the other sends meanwhile, so each push
carries half of what it could. But a push costs a leader and every follower as much as a hundred
messages, whatever it carries. So, where many wait, what is stored waits for the push before it, and
then a moment for those who were just told. (``store/services/sync_rounds.py`` does that for the
disk.)

Those who do not come back in that time, for their network is slow or they have nothing to send, are
not waited for in the next ``REST`` rounds.
"""

from __future__ import annotations

from typing import Final

MIN_SENDERS: Final = 8
"""Fewer are not worth it: each would wait for the slowest."""
MUCH: Final = 128
"""Messages: a push of so many waits for nobody."""
MUCH_BYTES: Final = 64 << 10
LONGEST_S: Final = 0.002
"""So long they are waited for. (Timers of the loop know whole milliseconds: that is one to two.)"""
REST: Final = 32
"""Commits after which it is tried again where less than three quarters came back."""


class PushRounds:
    """Of one leader, in one term."""

    def __init__(self, followers: int) -> None:
        self._followers: Final = followers
        self._everybody = 0
        """So many are waited for; 0: nobody."""
        self._rest = 0
        self._index = -1
        self._position = 0
        """Of the last entry that was pushed, and where the log goes on behind it."""

    def pushed(self, index: int, position: int) -> None:
        """Everything up to entry ``index``, which ends at ``position`` of the log."""
        self._index, self._position = index, position

    def holds(self, waiting: int, index: int, position: int, committed: int) -> bool:
        """What is new, up to entry ``index``, which ends at ``position``, is not pushed yet.
        ``waiting``: so many wait until messages are committed; entries up to ``committed`` are."""
        is_much = index - self._index >= MUCH or position - self._position >= MUCH_BYTES
        if self._rest or is_much:
            self._everybody = 0
        elif committed < self._index:
            return waiting >= MIN_SENDERS
        elif waiting >= self._everybody:
            self._everybody = 0
        return self._everybody > 0

    def committed(self, senders: int, everybody: int) -> bool:
        """So many were told that their messages are committed, of all who waited for that. True:
        the next push waits for them, ``LONGEST_S`` at most; then comes ``over``."""
        if self._rest:
            self._rest -= 1
        elif senders >= MIN_SENDERS and self._followers:
            self._everybody = everybody
            return True
        return False

    def over(self, waiting: int) -> None:
        """Those who were told have had their time; so many wait."""
        if 4 * waiting < 3 * self._everybody:
            self._rest = REST
        self._everybody = 0
