"""One member of the group: the one class that a shell drives.

A shell hands in what happens (``tick``, ``receive``, ``answered``, ``appended``, ``transfer``), as
much as there is, and then does what ``take`` says. It calls ``tick`` at ``next_deadline_ms``, which
``take`` moves; between two deadlines nothing changes by itself. ``now_ms`` is a clock that does not
jump and never goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...remoting.protocol.bodies.dledger import (
    REQUEST_CODES,
    RESPONSE_BODIES,
    AppendRequest,
    DledgerBody,
    DledgerCode,
    DledgerRequestCode,
    GetRequest,
    GetResponse,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    PushRequest,
    TransferRequest,
    VoteRequest,
)
from .candidacy import Candidacy
from .catch_up import CatchUp
from .entry_log import EntryLog
from .follower import Follower
from .leadership import Leadership
from .old_log import UNTOLD, OldLog
from .ready import HardState, Ready, Role
from .settings import RaftSettings
from .state import MemberState
from .transfer import Transfer
from .voter import Voter

NEVER_MS = 2**62
"""No deadline."""


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
        deposed: Callable[[], None] | None = None,
    ) -> None:
        """``random(a, b)`` is an integer of a..b. ``committed``: as far as this member knows from
        before, -1 for nothing. ``votes``: it has all that it ever acknowledged (or is new); False
        where a marker says that it was a member and the log is gone or may lack its end.

        ``deposed`` is called, in the middle of any method, the moment this member ceases to lead:
        from then on the shell's store must put no entry into the log. Raises StoreConfigError."""
        settings.check()
        self.settings = settings
        state = self._state = MemberState(settings, hard_state, log, random)
        state.start(committed, votes)
        if deposed is not None:
            state.deposed = deposed
        self._catch_up = CatchUp(state)
        self._voter = Voter(state, self._catch_up)
        self._candidacy = Candidacy(state, self._catch_up)
        self._follower = Follower(state, self._catch_up)
        self._leadership = Leadership(state)
        self.may_lead: Callable[[], bool] = lambda: True
        """Asked before leadership is taken from another one; an election does not ask."""
        self._transfer = Transfer(
            state, self._leadership, self._candidacy.take_over, lambda: self.may_lead()
        )
        self.next_deadline_ms: int = now_ms
        """When ``tick`` has something to do; it may be too early."""
        self._only_pushes = False
        """Since the last ``take`` nothing happened but pushes that went well: no deadline has come
        nearer than a COMMIT's."""
        self._catch_up.start(now_ms)
        self._candidacy.start(now_ms)

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def leader_id(self) -> str | None:
        """Of this term, where it is known."""
        return self._state.leader_id

    @property
    def term(self) -> int:
        return self._state.term

    @property
    def committed_index(self) -> int:
        """Everything up to here is decided; -1 for nothing."""
        return self._state.committed

    @property
    def votes(self) -> bool:
        """It has all that it ever acknowledged, and so votes and may lead."""
        return self._state.votes

    @property
    def trouble(self) -> str | None:
        """Of a follower: why its log does not take what the leader sends, if that is so."""
        return self._follower.trouble

    @property
    def leader_old_log(self) -> OldLog:
        """Of a follower: what its leader has in front of its entries."""
        return self._state.leader_old_log if self.role is Role.FOLLOWER else UNTOLD

    @property
    def transferee(self) -> str | None:
        """To whom leadership is going. While it is not None, a leader's shell takes no entries
        (code 506)."""
        return self._transfer.transferee

    @property
    def leader_heard_ms(self) -> int | None:
        """When the leader was heard last, a time of ``now_ms``; None while it has none, or leads
        itself."""
        return self._follower.heard_ms if self.role is Role.FOLLOWER else None

    def match_index(self, peer: str) -> int:
        """As leader: up to here the peer's log is known to be the same; -1 for nothing."""
        return self._leadership.match_index(peer)

    def is_level(self, peer: str) -> bool:
        """As leader: the peer follows and has all that there is. Its next answer to a heartbeat
        changes nothing before the next deadline."""
        return self._leadership.is_level(peer)

    def follows(self, now_ms: int, peer: str) -> bool:
        """As leader: the peer has been heard lately."""
        return self._leadership.follows(peer, now_ms)

    # --- what happens

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        self._only_pushes = False
        if not self._follower.tick(now_ms):
            self._candidacy.pace_ms = self._follower.pace_ms
            self._state.become_candidate(now_ms)
            self._candidacy.hurry(now_ms)
        if not self._leadership.tick(now_ms):
            self._state.become_candidate(now_ms)
        self._catch_up.tick(now_ms)
        self._candidacy.tick(now_ms)
        self._transfer.tick(now_ms)

    def receive(self, now_ms: int, request: DledgerBody, token: Any) -> None:
        """A request of a peer, or of a tool. Its answer comes out of ``take`` with the token, at
        once or later; every request is answered in the end."""
        self._only_pushes &= isinstance(request, PushRequest)
        code = self._wrong_address(request)
        if code is not None:
            self._refuse(request, token, code)
            return
        match request:
            case PushRequest():
                if self._follower.push(now_ms, request, token):
                    self._transfer.stored(now_ms)
                else:
                    self._refuse(request, token, DledgerCode.UNEXPECTED_ARGUMENT)
            case HeartbeatRequest():
                self._state.answer(token, self._follower.heartbeat(now_ms, request))
            case VoteRequest():
                taking = self._transfer.taking_term
                self._state.answer(token, self._voter.receive(now_ms, request, taking))
            case TransferRequest():
                self._transfer.receive(now_ms, request, token)
            case MetadataRequest():
                self._state.answer(token, self._metadata(now_ms, request))
            case GetRequest():
                self._get(request, token)
            case AppendRequest():
                leads = self.role is Role.LEADER
                code = DledgerCode.UNSUPPORTED if leads else DledgerCode.NOT_LEADER
                self._refuse(request, token, code)
            case _:
                self._refuse(request, token, DledgerCode.UNSUPPORTED)

    def answered(
        self, now_ms: int, peer: str, request: DledgerBody, answer: DledgerBody | None
    ) -> None:
        """What became of a request that ``take`` gave out: the answer, or None where there is none
        (refused, timed out after 3 s, not understood)."""
        match request:
            case PushRequest():
                if self._leadership.push_answered(now_ms, peer, request, answer):
                    return
            case HeartbeatRequest():
                led = self.role is Role.LEADER
                self._leadership.beat_answered(now_ms, peer, request, answer)
                if led:
                    self._candidacy.hurry(now_ms)
            case VoteRequest():
                self._candidacy.voted(now_ms, peer, request, answer)
            case TransferRequest():
                self._transfer.answered(now_ms, request, answer)
            case MetadataRequest():
                told = answer if isinstance(answer, MetadataResponse) else None
                if told is not None and told.code != DledgerCode.SUCCESS:
                    told = None
                self._catch_up.heard(now_ms, peer, request, told)
                self._candidacy.told(now_ms, peer, request, told)
            case _:
                pass
        self._only_pushes = False

    def appended(self, now_ms: int) -> None:
        """The leader's own store has put entries of the current term into the log; ``take`` sends
        them. A shell that waits for more of them says so later."""
        self._leadership.appended()

    def entry_mended(self, now_ms: int) -> None:
        """An entry of the log is another one than a moment ago: intact."""
        self._leadership.entry_mended(now_ms)

    def transfer(self, now_ms: int, to: str | None, token: Any) -> None:
        """Leadership is to go to a member; None: to the one that is furthest, before a clean stop.
        A TransferResponse comes out of ``take`` with the token: 200 once the other leads."""
        self._only_pushes = False
        self._transfer.order(now_ms, to, token)

    def take(self, now_ms: int) -> Ready:
        """What to do now. Entries of all ``appended`` since the last call go together."""
        state = self._state
        self._leadership.push(now_ms)
        calm = self._only_pushes and state.votes and not state.role_stirred
        if calm and now_ms < self.next_deadline_ms and not self._follower.waits:
            if state.role is Role.LEADER:
                soon = now_ms + self.settings.commit_idle_ms
                self.next_deadline_ms = min(self.next_deadline_ms, soon)
        else:
            self.next_deadline_ms = self._deadline()
            self._only_pushes = True
        return state.take()

    def _deadline(self) -> int:
        deadlines = (
            self._candidacy.deadline_ms,
            self._follower.deadline_ms,
            self._leadership.deadline_ms,
            self._catch_up.deadline_ms,
            self._transfer.deadline_ms,
        )
        return min((d for d in deadlines if d is not None), default=NEVER_MS)

    # --- answers of no part

    def _wrong_address(self, request: DledgerBody) -> DledgerCode | None:
        if request.remote_id != self.settings.self_id:
            return DledgerCode.UNKNOWN_MEMBER
        if request.group != self.settings.group:
            return DledgerCode.UNKNOWN_GROUP
        return None

    def _refuse(self, request: DledgerBody, token: Any, code: DledgerCode) -> None:
        kind = RESPONSE_BODIES[REQUEST_CODES.get(type(request), DledgerRequestCode.METADATA)]
        self._state.answer(
            token,
            kind(
                group=request.group,
                remote_id=request.remote_id,
                local_id=request.local_id,
                leader_id=self.leader_id,
                term=request.term,
                code=code,
            ),
        )

    def _metadata(self, now_ms: int, request: MetadataRequest) -> MetadataResponse:
        state = self._state
        heard: int | None = None
        pace: int | None = None
        if self.role is Role.LEADER:
            heard, pace = 0, self.settings.heartbeat_ms
        elif self.role is Role.FOLLOWER:
            heard, pace = now_ms - self._follower.heard_ms, self._follower.pace_ms
        return MetadataResponse(
            group=request.group,
            leader_id=state.leader_id,
            term=state.term,
            peers=dict(self.settings.peers),
            ledger_end_index=state.log.end_index,
            ledger_end_term=state.log.end_term,
            committed_index=state.committed,
            leader_heard_ms=heard,
            leader_pace_ms=pace,
            votes=state.votes,
            old_log_end=state.log.old_log.end,
            old_log_crc=state.log.old_log.crc,
        )

    def _get(self, request: GetRequest, token: Any) -> None:
        log = self._state.log
        is_known = request.committed and request.begin_index <= self._state.committed
        if self.role is not Role.LEADER and not is_known:
            self._refuse(request, token, DledgerCode.NOT_LEADER)
        elif not 0 <= request.begin_index <= log.end_index:
            self._refuse(request, token, DledgerCode.INDEX_OUT_OF_RANGE)
        elif request.begin_index < log.begin_index:
            self._refuse(request, token, DledgerCode.INDEX_LESS_THAN_LOCAL_BEGIN)
        else:
            self._state.answer(
                token,
                GetResponse(
                    group=request.group,
                    entries=list(log.entries(request.begin_index, 0)),
                ),
            )
