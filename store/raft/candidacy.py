"""How a member without a leader becomes one (class DLedgerLeaderElector; ``dledger.md`` §3.3).

Before it stands it asks all others, by METADATA, what they know; it stands, and raises its term,
only if a quorum would vote for it: has no better log and hears no leader (Raft's pre-vote, which
the original lacks). A vote that it gave itself before it was started again is not used twice: it
may have led that term.
"""

from __future__ import annotations

from enum import Enum

from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    MetadataRequest,
    MetadataResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from .catch_up import CatchUp, metadata_request
from .old_log import OldLog, has_less
from .ready import Role
from .state import MemberState

REVOTE_MS = 10
"""A voter of the original needs so long to come into a new term."""
MAX_REVOTES = 100
MOST_DOUBLINGS = 6
"""Of the random wait, one for each term that came to nothing: where a disk or a network takes
longer than it, nobody gets his votes before the next one stands. (Where each call of a disk takes
2 s five groups of the simulator had no lasting leader for 100 to 430 s and more; so for 0 to 30.)
"""
_EXPIRED = (VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.REJECT_TERM_SMALL_THAN_LEDGER)
_BEHIND = (VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX)


class _Stage(Enum):
    WAITING = 0
    ASKING = 1
    VOTING = 2


class Candidacy:
    """One member's way to leadership."""

    def __init__(self, state: MemberState, catch_up: CatchUp) -> None:
        self._state = state
        self._catch_up = catch_up
        self._max_leak = state.settings.max_leak
        self._stage = _Stage.WAITING
        self._known: dict[str, MetadataResponse | None] = {}
        self._ballots: dict[str, VoteResponse | None] = {}
        self._under_way: dict[str, DledgerBody] = {}
        self._own_round_term = -1
        """The term in which it voted for itself since it started."""
        self._next_term = True
        """The next round is in a new term."""
        self._revotes = 0
        self._leaderless = 0
        """Terms without a leader, one after the other, the present one among them."""
        self.pace_ms: int = state.settings.heartbeat_ms
        """Of the last leader."""
        self.deadline_ms: int | None = None
        state.role_listeners.append(self._role_changed)

    def start(self, now_ms: int) -> None:
        """It begins with the role of a candidate."""
        settings = self._state.settings
        alone = not settings.others
        self._wait(now_ms, 0 if alone else self._state.random(0, settings.vote_min_ms))

    def hurry(self, now_ms: int) -> None:
        """Ask soon: the leader's silence was waiting enough, but it ends for all others in the same
        moment, and two who stand at once split the votes."""
        if self._state.role is Role.CANDIDATE:
            self._wait(now_ms, self._state.random(0, self._state.settings.vote_min_ms))

    def take_over(self, now_ms: int) -> int:
        """Stand at once without asking, for the leader wants it (§3.11). Returns the new term."""
        self._next_term = True
        self._stand(now_ms)
        return self._state.term

    def tick(self, now_ms: int) -> None:
        """The wait or the round is over."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return
        if self._stage is _Stage.WAITING:
            if self._revotes:
                self._vote(now_ms)
            else:
                self._ask(now_ms)
        elif self._stage is _Stage.ASKING:
            self._retry(now_ms)
        else:
            self._evaluate(now_ms)

    # --- what the others know

    def _ask(self, now_ms: int) -> None:
        state = self._state
        self._stage = _Stage.ASKING
        self._known = {}
        questions = {peer: metadata_request(state, peer) for peer in state.settings.others}
        self._under_way = dict(questions)
        self.deadline_ms = now_ms + state.settings.metadata_round_ms
        for peer, request in questions.items():
            self._catch_up.asks(peer, request)
            state.send(peer, request)
        self._count_hopes(now_ms)

    def told(self, now_ms: int, peer: str, request: MetadataRequest, answer: object) -> None:
        """What a member answered, or None."""
        if self._stage is not _Stage.ASKING or self._under_way.get(peer) is not request:
            return
        self._known[peer] = answer if isinstance(answer, MetadataResponse) else None
        if isinstance(answer, MetadataResponse):
            self._state.known_max_term = max(self._state.known_max_term, answer.term)
        self._count_hopes(now_ms)

    def _count_hopes(self, now_ms: int) -> None:
        state = self._state
        quorum = state.settings.quorum
        open_ = len(self._under_way) - len(self._known)
        willing = [a for a in self._known.values() if a is not None and self._would_vote(a)]
        # One that may not vote freely votes for who is as good as everybody: all must be known.
        hopes = 1 + sum(answer.votes is not False or open_ == 0 for answer in willing)
        if hopes >= quorum and self._catch_up.may_vote_for(state.log_end):
            self._stand(now_ms)
        elif open_ == 0 or (1 + len(willing) + open_ < quorum and state.votes):
            self._retry(now_ms)

    def _would_vote(self, answer: MetadataResponse) -> bool:
        state = self._state
        theirs = (answer.ledger_end_term, answer.ledger_end_index)
        if theirs[0] is not None and theirs[1] is not None and (*theirs,) > state.log_end:
            return False
        if theirs == state.log_end and has_less(
            state.log.old_log,
            OldLog(answer.old_log_end, answer.old_log_crc),
            no_entries=state.log.end_index < 0,
        ):
            return False
        leader, pace = answer.leader_id, answer.leader_pace_ms or self.pace_ms
        if leader is not None and leader != state.settings.self_id:
            heard = answer.leader_heard_ms
            if heard is None or heard < (self._max_leak - 1) * pace:
                return False
        return True

    # --- the votes

    def _stand(self, now_ms: int) -> None:
        """A round, in a new term if the last one cannot be won any more."""
        state = self._state
        own = state.vote == state.settings.self_id and self._own_round_term == state.term
        if self._next_term or not own or state.known_max_term > state.term:
            state.raise_term(max(state.term, state.known_max_term) + 1)
            self._leaderless += 1
        self._own_round_term = state.term
        self._next_term = False
        state.vote_for(state.settings.self_id)
        self._vote(now_ms)

    def _vote(self, now_ms: int) -> None:
        state, settings = self._state, self._state.settings
        self._stage = _Stage.VOTING
        self._ballots = {}
        (end_term, end_index), old_log = state.log_end, state.log.old_log
        self._under_way = {
            peer: VoteRequest(
                group=settings.group,
                remote_id=peer,
                local_id=settings.self_id,
                leader_id=settings.self_id,
                term=state.term,
                ledger_end_index=end_index,
                ledger_end_term=end_term,
                old_log_end=old_log.end,
                old_log_crc=old_log.crc,
            )
            for peer in settings.others
        }
        self.deadline_ms = now_ms + settings.vote_round_ms + self._random_ms()
        for peer, request in self._under_way.items():
            state.send(peer, request)
        self._count_votes(now_ms)

    def voted(self, now_ms: int, peer: str, request: VoteRequest, answer: object) -> None:
        """A ballot, or None."""
        if self._stage is not _Stage.VOTING or self._under_way.get(peer) is not request:
            return
        self._ballots[peer] = answer if isinstance(answer, VoteResponse) else None
        if self._count(VoteResult.REJECT_ALREADY_VOTED):
            # the votes are split: whoever has not answered soon stands still, perhaps for long
            soon = now_ms + self._random_ms()
            self.deadline_ms = min(soon, self.deadline_ms or soon)
        self._count_votes(now_ms)

    def _count(self, *results: VoteResult) -> int:
        return sum(b is not None and b.vote_result in results for b in self._ballots.values())

    def _count_votes(self, now_ms: int) -> None:
        quorum = self._state.settings.quorum
        good = 1 + self._count(VoteResult.ACCEPT)
        ready = good + self._count(VoteResult.REJECT_TERM_NOT_READY)
        open_ = len(self._under_way) - len(self._ballots)
        has_leader = self._count(VoteResult.REJECT_ALREADY_HAS_LEADER)
        if has_leader or ready >= quorum or ready + open_ < quorum or open_ == 0:
            self._evaluate(now_ms)

    def _evaluate(self, now_ms: int) -> None:
        """In the order of §3.3."""
        state, settings = self._state, self._state.settings
        quorum = settings.quorum
        good = 1 + self._count(VoteResult.ACCEPT)
        ready = good + self._count(VoteResult.REJECT_TERM_NOT_READY)
        valid = 1 + sum(
            b is not None and b.vote_result is not VoteResult.UNKNOWN
            for b in self._ballots.values()
        )
        later = [
            b.term
            for b in self._ballots.values()
            if b is not None and b.vote_result in _EXPIRED and b.term > state.term
        ]
        random_ms = self._random_ms()
        self._revotes, revotes = 0, self._revotes
        if not self._catch_up.may_vote_for(state.log_end):  # not for itself either: just found out
            self._wait(now_ms, random_ms)
        elif later:
            state.known_max_term = max(state.known_max_term, *later)
            self._wait(now_ms, random_ms, next_term=True)
        elif self._count(VoteResult.REJECT_ALREADY_HAS_LEADER):
            self._wait(now_ms, random_ms + self._max_leak * self.pace_ms)
        elif valid < quorum:
            self._wait(now_ms, random_ms)
        elif valid - self._count(*_BEHIND) < quorum:
            self._wait(now_ms, random_ms + settings.vote_max_ms)
        elif good >= quorum:
            self._catch_up.voted()
            state.become_leader(now_ms)
        elif ready >= quorum and revotes < MAX_REVOTES:
            self._wait(now_ms, REVOTE_MS if revotes else 0)
            self._revotes = revotes + 1
            if not revotes:
                self._vote(now_ms)
        else:
            self._wait(now_ms, random_ms, next_term=True)

    # --- between rounds

    def _retry(self, now_ms: int) -> None:
        self._wait(now_ms, self._random_ms())

    def _random_ms(self) -> int:
        """The wait between two rounds."""
        settings = self._state.settings
        doublings = min(max(self._leaderless - 1, 0), MOST_DOUBLINGS)
        return self._state.random(settings.vote_min_ms, settings.vote_max_ms << doublings)

    def _wait(self, now_ms: int, wait_ms: int, *, next_term: bool = False) -> None:
        self._stage = _Stage.WAITING
        self._under_way = {}
        self._next_term = self._next_term or next_term
        self.deadline_ms = now_ms + wait_ms

    def _role_changed(self, now_ms: int) -> None:
        self._revotes = 0
        if self._state.role is Role.CANDIDATE:
            self._leaderless = 0 if self.deadline_ms is None else self._leaderless + 1
            self._retry(now_ms)
        else:
            self._stage = _Stage.WAITING
            self._next_term = True
            self.deadline_ms = None
