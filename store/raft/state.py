"""What all parts of a member share: term, vote, role, commit index, and what is to go out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...remoting.protocol.bodies.dledger import DledgerBody
from .entry_log import CommittedConflict, EntryLog
from .old_log import UNTOLD, OldLog
from .ready import Answer, HardState, Outgoing, Ready, Role, RoleChange
from .settings import RaftSettings


class MemberState:
    """Changed by the parts through its methods, so that nothing that must be durable or told is
    forgotten."""

    def __init__(
        self,
        settings: RaftSettings,
        hard_state: HardState,
        log: EntryLog,
        random: Callable[[int, int], int],
    ) -> None:
        self.settings = settings
        self.log = log
        self.random = random
        # An entry may be in the log whose term was not made durable any more.
        self.term: int = max(hard_state.term, log.end_term)
        self.vote: str | None = hard_state.vote if self.term == hard_state.term else None
        self.role = Role.CANDIDATE
        self.leader_id: str | None = None
        self.committed: int = -1
        self.votes: bool = True
        self.leader_old_log: OldLog = UNTOLD
        """Of the leader that was followed last."""
        self.known_max_term: int = self.term
        """The largest term that anybody told of."""
        self.role_listeners: list[Callable[[int], None]] = []
        """Told of each change of role, leader or term, with the time, in this order."""
        self.deposed: Callable[[], None] = _nothing
        """Called when it ceases to lead, before anything else happens."""
        self._hard_changed = self.term != hard_state.term
        self._answers: list[Answer] = []
        self._requests: list[Outgoing] = []
        self._told_committed = -1
        self._told_role: RoleChange = RoleChange(Role.CANDIDATE, self.term, None)
        self.role_stirred = False
        """Role, leader or term may have changed since the last ``take``."""
        self._told_votes = True
        self._noop = False

    def start(self, committed: int, votes: bool) -> None:
        """What it knows from before."""
        self.committed = self._told_committed = min(committed, self.log.end_index)
        self.votes = self._told_votes = votes

    @property
    def log_end(self) -> tuple[int, int]:
        """Term and index of the last entry: the larger the better a log."""
        return self.log.end_term, self.log.end_index

    # --- term, vote, role

    def raise_term(self, term: int) -> None:
        """Into a later term, without a vote so far. The role is the caller's to change. Raises
        CommittedConflict."""
        if term <= self.term:
            raise CommittedConflict(f"term {term} cannot follow term {self.term}")
        self.term = term
        self.vote = None
        self.role_stirred = True
        self._hard_changed = True
        self.known_max_term = max(self.known_max_term, term)

    def vote_for(self, candidate: str) -> None:
        """The vote of this term. Raises CommittedConflict: it was given already."""
        if self.vote != candidate:
            if self.vote is not None:
                raise CommittedConflict(
                    f"the vote of term {self.term} is {self.vote}'s, it cannot be {candidate}'s"
                )
            self.vote = candidate
            self._hard_changed = True

    def become_candidate(self, now_ms: int, term: int | None = None) -> None:
        """Knows no leader; in a later term, where one is given."""
        self._leave()
        if term is not None and term > self.term:
            self.raise_term(term)
        self._become(now_ms, Role.CANDIDATE, None)

    def become_follower(self, now_ms: int, leader_id: str) -> None:
        """Of the leader of this term."""
        self._leave()
        self._become(now_ms, Role.FOLLOWER, leader_id)

    def become_leader(self, now_ms: int) -> None:
        """Of this term. If the end of the log is not committed, it takes an entry of the term to
        commit it (Raft §5.4.2). Raises CommittedConflict: it has not voted for itself."""
        if self.vote != self.settings.self_id:
            raise CommittedConflict(
                f"the vote of term {self.term} is {self.vote}'s: this member cannot lead it"
            )
        self._noop = self.log.end_index > self.committed
        self._become(now_ms, Role.LEADER, self.settings.self_id)

    def _leave(self) -> None:
        if self.role is Role.LEADER:
            self._noop = False
            self.deposed()

    def _become(self, now_ms: int, role: Role, leader_id: str | None) -> None:
        self.role = role
        self.leader_id = leader_id
        self.role_stirred = True
        for listener in self.role_listeners:
            listener(now_ms)

    def commit(self, index: int) -> None:
        """Everything up to ``index`` is decided; it never goes back. Raises CommittedConflict:
        that is more than there is."""
        if index > self.committed:
            if index > self.log.end_index:
                raise CommittedConflict(
                    f"entry {index} cannot be committed: the log ends with {self.log.end_index}"
                )
            self.committed = index

    # --- what goes out

    def send(self, peer: str, request: DledgerBody) -> None:
        """A request."""
        self._requests.append(Outgoing(peer, request))

    def answer(self, token: Any, body: DledgerBody) -> None:
        """The answer to a request."""
        self._answers.append(Answer(token, body))

    def take(self) -> Ready:
        """What has come together since the last call."""
        hard = HardState(self.term, self.vote) if self._hard_changed else None
        committed = self.committed if self.committed != self._told_committed else None
        votes = self.votes if self.votes != self._told_votes else None
        role = self._news_of_role() if self.role_stirred else None
        ready = Ready(hard, self._answers, self._requests, committed, role, self._noop, votes)
        self._hard_changed = self._noop = False
        self._answers = []
        self._requests = []
        self._told_committed = self.committed
        self._told_votes = self.votes
        return ready

    def _news_of_role(self) -> RoleChange | None:
        self.role_stirred = False
        role = RoleChange(self.role, self.term, self.leader_id)
        if role == self._told_role:
            return None
        self._told_role = role
        return role


def _nothing() -> None:
    pass
