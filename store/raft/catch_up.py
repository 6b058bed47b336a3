"""May this member vote? Not while it may lack something that it acknowledged, because its log or
its whole disk was lost: with its vote an entry could be lost that it helped to commit.

A member without its log is told so by a marker (``votes`` is False from the start), or it finds
out: it knows of no term, has no log, and a peer has one. It may vote again

* once its log is as good as that of every other member was after it started, as they last said, or
* once it has committed what its leader had after it started; a leader of the original does not tell
  where its log ends, but in every push how much of it is committed: that much.

Until then it may vote for a candidate as good as every other member. So a group whose members are
all empty elects, as soon as all are there. A member that has lost its term as well may have voted
in any term up to the largest that it hears of.

How good the others are is asked in rounds, until it votes: what one of them had at the end of its
log may be truncated, and nobody could ever be as good as that again. All answers of a round are to
questions of this round. It begins anew when a member tells that it has lost its log, too: what
that member had acknowledged may have reached another one since this said where its log ends.
"""

from __future__ import annotations

from ...remoting.protocol.bodies.dledger import MetadataRequest, MetadataResponse
from .ready import Role
from .state import MemberState

ASK_MS = 500
"""Pace of the questions of one that may not vote."""
JAVA_CAUGHT_UP_MS = 6000
"""A leader that does not tell where its log ends has told how much of it was committed when this
member began to follow, once it was followed so long: its calls end after 3000."""


class CatchUp:
    """What one member knows of the logs of the others."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._others = state.settings.others
        self._heard: set[str] = set()
        self._asked: dict[str, list[MetadataRequest]] = {}
        """This round's questions that are under way."""
        self._answers: dict[str, tuple[int, int]] = {}
        """This round's: where their logs end."""
        self._losses: set[str] = set()
        """Who has no vote, as far as is known."""
        self._floor: tuple[int, int] | None = None if self._others else (-1, -1)
        """What the last whole round told: the end of the best of their logs."""
        self._new = False
        self._forgot_term = False
        self._maybe_voted_term = -1
        self._target = (-1, -1)
        self._followed_since = 0
        self._followed: tuple[str | None, int] = (None, -1)
        self._told_commit = -1
        """Of the leader that is followed: so much of its log is committed, whatever is here."""
        self.deadline_ms: int | None = None
        state.role_listeners.append(self._role_changed)

    def start(self, now_ms: int) -> None:
        """Once the state knows what it is."""
        state = self._state
        nothing = state.term == 0 and state.log.end_index < 0
        self._new = nothing and state.votes
        self._forgot_term = nothing and not state.votes
        if not self._others:
            state.votes = True
        self._plan(now_ms)

    def may_vote_for(self, log_end: tuple[int, int]) -> bool:
        """For a candidate whose log ends so."""
        if self._new and log_end[1] >= 0:
            self._lost()
        if self._state.votes:
            return True
        return self._floor is not None and log_end >= self._floor

    def may_have_voted_in(self, term: int) -> bool:
        """Before it lost its term."""
        return self._forgot_term and term <= self._maybe_voted_term

    def voted(self) -> None:
        """With others that have nothing either: the group is new."""
        self._new = False

    def storing(self) -> None:
        """A leader fills this log. If it was new, the leader may have had its acknowledgements
        before."""
        if self._new:
            self._lost()

    def told_commit(self, index: int) -> None:
        """The leader that is followed has committed so much."""
        self._told_commit = max(self._told_commit, index)

    def committed(self, now_ms: int) -> None:
        """The commit index has risen."""
        if not self._state.votes:
            self._judge(now_ms)

    def tick(self, now_ms: int) -> None:
        """Ask everybody, while there is a reason to."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return
        state = self._state
        if state.role is not Role.LEADER:
            for peer in self._others:
                if not self._asked.get(peer) and peer not in self._answers:
                    question = metadata_request(state, peer)
                    self.asks(peer, question)
                    state.send(peer, question)
        self.deadline_ms = None
        self._plan(now_ms + ASK_MS)

    def asks(self, peer: str, question: MetadataRequest) -> None:
        """Somebody of this member does, for whatever reason: the answer counts here too."""
        if not self._state.votes:
            self._asked.setdefault(peer, []).append(question)

    def heard(
        self, now_ms: int, peer: str, question: MetadataRequest, answer: MetadataResponse | None
    ) -> None:
        """Of a member, after this one started; None where no answer came."""
        state = self._state
        asked = self._asked.get(peer, [])
        in_round = any(each is question for each in asked)
        self._asked[peer] = [each for each in asked if each is not question]
        if answer is None:
            return
        if answer.ledger_end_index is not None and answer.ledger_end_term is not None:
            if peer not in self._heard:  # it may turn out later that the term was forgotten
                self._heard.add(peer)
                self._maybe_voted_term = max(self._maybe_voted_term, answer.term)
            if self._new and answer.ledger_end_index >= 0:
                self._lost()
            self._note_loss(peer, answer)
            if in_round:
                self._answers[peer] = answer.ledger_end_term, answer.ledger_end_index
            if len(self._answers) == len(self._others):
                self._floor = max(self._answers.values())
                self._answers.clear()
            if answer.leader_id == peer:
                self._target = answer.term, answer.ledger_end_index
        elif (
            state.leader_id == peer
            and now_ms - self._followed_since >= JAVA_CAUGHT_UP_MS
            and self._told_commit >= 0  # else it has sent nothing so far, whatever it has
        ):
            self._target = state.term, max(state.log.end_index, self._told_commit)
        if not state.votes:
            self._judge(now_ms)
            self._plan(now_ms + ASK_MS)

    def _note_loss(self, peer: str, answer: MetadataResponse) -> None:
        if answer.votes is not False:
            self._losses.discard(peer)
        elif peer not in self._losses:
            self._losses.add(peer)
            self._begin_round()

    def _begin_round(self) -> None:
        self._asked.clear()
        self._answers.clear()

    def _judge(self, now_ms: int) -> None:
        state = self._state
        term, index = self._target
        complete = self._floor is not None and state.log_end >= self._floor
        followed = state.role is Role.FOLLOWER and state.term == term and state.committed >= index
        if complete or followed:
            state.votes = True
            self.deadline_ms = None

    def _lost(self) -> None:
        self._new = False
        self._state.votes = False
        self._forgot_term = True
        self.deadline_ms = 0  # asks at once

    def _plan(self, at_ms: int) -> None:
        if self._state.votes:
            self.deadline_ms = None
        elif self.deadline_ms is None:  # not pushed back: a candidate's own questions are many
            self.deadline_ms = at_ms

    def _role_changed(self, now_ms: int) -> None:
        followed = self._state.leader_id, self._state.term
        if followed != self._followed:
            self._followed = followed
            self._followed_since = now_ms
            self._told_commit = -1
            if not self._state.votes and self._state.role is Role.FOLLOWER:
                self._begin_round()  # where its log ends says what there is to catch up
                self.deadline_ms = now_ms
        if self._state.role is Role.LEADER and not self._state.votes:
            self._judge(now_ms)  # it was elected for a log as good as all others


def metadata_request(state: MemberState, peer: str) -> MetadataRequest:
    """Where do you stand?"""
    settings = state.settings
    return MetadataRequest(
        group=settings.group, remote_id=peer, local_id=settings.self_id, term=state.term
    )
