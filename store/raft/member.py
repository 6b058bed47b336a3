"""One member of the group: the one class that a shell drives.

A shell hands in what happens (``tick``, ``receive``, ``answered``, ``appended``, ``transfer``), as
much as there is, and then does what ``take`` says. It calls ``tick`` at ``next_deadline_ms``;
between two deadlines nothing changes by itself. ``now_ms`` is a clock that does not jump and never
goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...remoting.protocol.bodies.dledger import DledgerBody
from .entry_log import EntryLog
from .ready import HardState, Ready, Role
from .settings import RaftSettings


class Member:
    """See the module. Every method may raise ``CommittedConflict``: then the node has to stop."""

    def __init__(
        self,
        settings: RaftSettings,
        hard_state: HardState,
        log: EntryLog,
        random: Callable[[int, int], int],
        now_ms: int,
        *,
        committed: int,
        votes: bool,
    ) -> None:
        """``random(a, b)`` is an integer of a..b. ``committed``: as far as this member knows from
        before, -1 for nothing. ``votes``: it has all that it ever acknowledged (or is new); False
        where a marker says that it was a member and the log is gone or may lack its end."""
        settings.check()
        self.settings = settings
        self.role = Role.CANDIDATE
        self.leader_id: str | None = None
        self.term: int = hard_state.term
        self.committed_index: int = committed
        self.votes = votes
        self.transferee: str | None = None
        """To whom leadership is going. While it is not None, a leader's shell takes no entries
        (code 506)."""
        self.next_deadline_ms: int = now_ms
        """When ``tick`` has something to do."""

    @property
    def leader_heard_ms(self) -> int | None:
        """When the leader was heard last, a time of ``now_ms``; None while there is none."""
        raise NotImplementedError

    def match_index(self, peer: str) -> int:
        """As leader: up to here the peer's log is known to be the same; -1 for nothing."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        raise NotImplementedError

    def receive(self, now_ms: int, request: DledgerBody, token: Any) -> None:
        """A request of a peer (or of a tool). Its answer comes out of ``take`` with the token, at
        once or later; if this member dies or changes its role meanwhile, perhaps with an error. All
        requests are answered in the end."""
        raise NotImplementedError

    def answered(
        self, now_ms: int, peer: str, request: DledgerBody, answer: DledgerBody | None
    ) -> None:
        """What became of a request that ``take`` gave out: the answer, or None where there is none
        (refused, timed out after 3 s, not understood)."""
        raise NotImplementedError

    def appended(self, now_ms: int) -> None:
        """The leader's own store has put entries of the current term into the log."""
        raise NotImplementedError

    def transfer(self, now_ms: int, to: str | None, token: Any) -> None:
        """Leadership is to go to a member; None: to the one that is furthest, before a clean stop.
        A TransferResponse comes out of ``take`` with the token."""
        raise NotImplementedError

    def take(self, now_ms: int) -> Ready:
        """What to do now. Entries of all ``appended`` since the last call go together."""
        raise NotImplementedError
