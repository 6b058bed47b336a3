"""Leadership goes from one member to another (``dledger.md`` §3.11): because somebody asks for it,
because a preferred member does not lead, or before a leader stops.

From the moment a transferee is chosen the leader takes no entries (506). The transferee waits until
its log has what the leader's had, then stands in the next term without asking. One that hangs, so
that it follows no more, is not waited for: a leader that stops has little time, and senders wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    DledgerCode,
    TransferRequest,
    TransferResponse,
)
from .leadership import Leadership
from .old_log import has_less
from .ready import Role
from .state import MemberState

PREFERRED_MS = 1000
"""So often a leader that is not preferred looks for one that is."""
PREFERRED_AGAIN_MS = 10_000
"""After one that follows could not take leadership: each attempt keeps senders waiting."""
_NOBODY = object()
_REFUSALS = (
    DledgerCode.UNKNOWN_MEMBER,
    DledgerCode.NOT_LEADER,
    DledgerCode.INCONSISTENT_TERM,
    DledgerCode.INCONSISTENT_LEADER,
    DledgerCode.FALL_BEHIND_TOO_MUCH,
    DledgerCode.LEADER_TRANSFERRING,
)


class _Taking(NamedTuple):
    """A transferee's part."""

    request: TransferRequest
    token: Any
    until_ms: int


class _Given(NamedTuple):
    """The leader's part."""

    forwarded: TransferRequest
    """To the transferee."""
    request: TransferRequest
    """What was wanted of this node."""
    token: Any
    tried: tuple[str, ...] | None
    """Whom it went to, when it may go to anybody; None: to this one only."""


class Transfer:
    """One member's part in transfers."""

    def __init__(
        self,
        state: MemberState,
        leadership: Leadership,
        take_over: Callable[[int], int],
        may_lead: Callable[[], bool],
    ) -> None:
        """``may_lead``: this node could do what a leader has to."""
        self._state = state
        self._may_lead = may_lead
        self._leadership = leadership
        self._take_over = take_over
        self._forwarded: TransferRequest | None = None
        """What went to the transferee."""
        self._given: dict[int, _Given] = {}
        """The requests that went to transferees, by the object's id."""
        self._taking: _Taking | None = None
        self.taking_term: int = -1
        """Leadership is taken in this term; -1: it is not."""
        self._look_ms: int | None = None
        state.role_listeners.append(self._role_changed)

    @property
    def transferee(self) -> str | None:
        """Who is to lead instead of this node."""
        return None if self._forwarded is None else self._forwarded.transferee_id

    @property
    def deadline_ms(self) -> int | None:
        """The patience with a transferee, its own, or the next look for a preferred leader."""
        taking, to = self._taking, self.transferee
        times = (
            self._look_ms,
            None if taking is None else taking.until_ms,
            None if to is None else self._leadership.follows_until_ms(to) + 1,
        )
        return min((each for each in times if each is not None), default=None)

    def receive(self, now_ms: int, request: TransferRequest, token: Any) -> None:
        """A tool wants it, or the leader."""
        own = self._state.settings.self_id
        if request.transfer_id == own:
            code = self._refusal(request)
            if code is None:
                self._give(request, token, None)
                return
        elif request.transferee_id == own:
            code = self._taking_refusal(request)
            if code is None:
                self._take(now_ms, request, token)
                return
        else:
            code = DledgerCode.UNEXPECTED_ARGUMENT
        self._answer(token, request, code)

    def order(self, now_ms: int, to: str | None, token: Any) -> None:
        """This node wants it; None: to the one that is furthest, and to the next where that one
        cannot (it may have no vote yet, or be gone since it was heard)."""
        if to is None:
            self._order_anybody(now_ms, token, (), DledgerCode.FALL_BEHIND_TOO_MUCH)
        else:
            self.receive(now_ms, self._own_request(to), token)

    def _order_anybody(
        self, now_ms: int, token: Any, tried: tuple[str, ...], failed: DledgerCode | int
    ) -> None:
        """``failed``: why the last one could not."""
        state = self._state
        left = tuple(peer for peer in state.settings.others if peer not in tried)
        to = self._furthest(now_ms, left)
        request = self._own_request(to)
        if state.role is not Role.LEADER:
            self._answer(token, request, DledgerCode.NOT_LEADER)
        elif to is None:
            self._answer(token, request, failed)
        elif (refusal := self._refusal(request)) is not None:
            self._answer(token, request, refusal)
        else:
            self._give(request, token, (*tried, to))

    def _own_request(self, to: str | None) -> TransferRequest:
        state = self._state
        return TransferRequest(
            group=state.settings.group,
            remote_id=state.settings.self_id,
            local_id=state.settings.self_id,
            leader_id=state.leader_id,
            term=state.term,
            transfer_id=state.settings.self_id,
            transferee_id=to,
        )

    # --- the leader's part

    def _refusal(self, request: TransferRequest) -> DledgerCode | None:
        state = self._state
        to = request.transferee_id
        if to is None or to not in state.settings.others:
            return DledgerCode.UNKNOWN_MEMBER
        if request.term != state.term:
            return DledgerCode.INCONSISTENT_TERM
        if state.role is not Role.LEADER:
            return DledgerCode.NOT_LEADER
        if self._lag(to) >= state.settings.max_lag_entries or not self._may_win(to):
            return DledgerCode.FALL_BEHIND_TOO_MUCH
        if self._forwarded is not None:
            return DledgerCode.LEADER_TRANSFERRING
        return None

    def _give(self, request: TransferRequest, token: Any, tried: tuple[str, ...] | None) -> None:
        state = self._state
        to = request.transferee_id
        assert to is not None
        forwarded = TransferRequest(
            group=state.settings.group,
            remote_id=to,
            local_id=state.settings.self_id,
            leader_id=state.settings.self_id,
            term=state.term,
            transfer_id=state.settings.self_id,
            transferee_id=to,
            take_leadership_ledger_index=state.log.end_index,
        )
        self._forwarded = forwarded
        self._given[id(forwarded)] = _Given(forwarded, request, token, tried)
        state.send(to, forwarded)

    def answered(self, now_ms: int, forwarded: TransferRequest, answer: DledgerBody | None) -> None:
        """What the transferee made of it; None: it does not answer."""
        given = self._given.pop(id(forwarded), None)
        if given is None:
            return
        state = self._state
        good = isinstance(answer, TransferResponse)
        code = answer.code if good and answer is not None else DledgerCode.NETWORK_ERROR
        leads = forwarded.term == state.term and state.role is Role.LEADER
        if leads:
            self._forwarded = None
            if given.token is _NOBODY and code != DledgerCode.SUCCESS:
                self._look_ms = now_ms + PREFERRED_AGAIN_MS
        if leads and given.tried is not None and code != DledgerCode.SUCCESS:
            self._order_anybody(now_ms, given.token, given.tried, code)
        else:
            self._answer(given.token, given.request, code)

    def _lag(self, peer: str) -> int:
        return self._state.log.end_index - self._leadership.match_index(peer)

    def _furthest(self, now_ms: int, among: tuple[str, ...]) -> str | None:
        limit = self._state.settings.max_lag_entries
        fit = [p for p in among if self._leadership.follows(p, now_ms) and self._lag(p) < limit]
        return min(filter(self._may_win, fit), key=self._lag, default=None)

    def _may_win(self, peer: str) -> bool:
        """A majority will not refuse it for its old log."""
        state, settings = self._state, self._state.settings
        no_entries = state.log.end_index < 0
        theirs = self._leadership.old_log(peer)
        voters = [state.log.old_log, *map(self._leadership.old_log, settings.others)]
        refuse = sum(has_less(theirs, each, no_entries=no_entries) for each in voters)
        return len(voters) - refuse >= settings.quorum

    def tick(self, now_ms: int) -> None:
        """Deadlines of both parts."""
        state, to = self._state, self.transferee
        if self._forwarded is not None and to and not self._leadership.follows(to, now_ms):
            self.answered(now_ms, self._forwarded, None)
        if self._look_ms is not None and now_ms >= self._look_ms:
            self._look_ms = now_ms + PREFERRED_MS
            better = self._furthest(now_ms, state.settings.preferred_leaders)
            if better is not None and self._forwarded is None:
                self.order(now_ms, better, _NOBODY)
        taking = self._taking
        if taking is not None and now_ms >= taking.until_ms:
            self._end_taking(DledgerCode.TAKE_LEADERSHIP_FAILED)

    # --- the transferee's part

    def _taking_refusal(self, request: TransferRequest) -> DledgerCode | None:
        state = self._state
        if request.transfer_id != state.leader_id or request.transfer_id is None:
            return DledgerCode.INCONSISTENT_LEADER
        if request.term != state.term:
            return DledgerCode.INCONSISTENT_TERM
        if self._taking is not None:
            return DledgerCode.LEADER_TRANSFERRING
        if not state.votes or not self._may_lead():
            return DledgerCode.TAKE_LEADERSHIP_FAILED
        return None

    def _take(self, now_ms: int, request: TransferRequest, token: Any) -> None:
        until_ms = now_ms + self._state.settings.take_leadership_ms
        self._taking = _Taking(request, token, until_ms)
        self.stored(now_ms)

    def stored(self, now_ms: int) -> None:
        """The log has grown: perhaps it has now what it must have."""
        state, taking = self._state, self._taking
        if taking is None or self.taking_term >= 0 or state.role is not Role.FOLLOWER:
            return
        if state.log.end_index >= taking.request.take_leadership_ledger_index:
            self._taking = taking._replace(until_ms=now_ms + 2 * state.settings.vote_round_ms)
            state.become_candidate(now_ms)
            self.taking_term = self._take_over(now_ms)

    def _end_taking(self, code: DledgerCode) -> None:
        taking, self._taking = self._taking, None
        self.taking_term = -1
        if taking is not None:
            self._answer(taking.token, taking.request, code)

    def _answer(self, token: Any, request: TransferRequest, code: int) -> None:
        """Refusals tell whom they are of, all else the code."""
        if token is _NOBODY:
            return
        state = self._state
        answer = TransferResponse(term=state.term, code=code)
        if code in _REFUSALS:
            answer = TransferResponse(
                group=request.group,
                remote_id=request.remote_id,
                local_id=request.local_id,
                leader_id=state.leader_id,
                term=request.term,
                code=code,
            )
        state.answer(token, answer)

    def _role_changed(self, now_ms: int) -> None:
        state = self._state
        self._forwarded = None
        leads = state.role is Role.LEADER
        wanted = state.settings.preferred_leaders
        looks = leads and wanted and state.settings.self_id not in wanted
        self._look_ms = now_ms + PREFERRED_MS if looks else None
        if self._taking is None:
            return
        if leads:
            self._end_taking(DledgerCode.SUCCESS)
        elif state.role is Role.FOLLOWER:
            self._end_taking(DledgerCode.TAKE_LEADERSHIP_FAILED)
        elif state.term > max(self.taking_term, self._taking.request.term):
            self._end_taking(DledgerCode.EXPIRED_TERM)
