"""What a leader does: heartbeats, pushes to every follower, and what is committed (classes
DLedgerLeaderElector, QuorumAckChecker; ``dledger.md`` §3.6, §3.10).

Other than the original it commits by entries of its own term only (Raft §5.4.2), and gives up on a
larger term at once, not only when it has no quorum.
"""

from __future__ import annotations

from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    DledgerCode,
    HeartbeatRequest,
    HeartbeatResponse,
    PushRequest,
)
from .old_log import UNTOLD, OldLog
from .peer_push import PeerPush
from .ready import Role
from .slices import Slices
from .state import MemberState

REPEAT_MS = 10
"""A peer that is not in the term yet (416) gets the next heartbeat after this."""


class _Peer:
    __slots__ = ("beat_ms", "code", "followed_ms", "old_log", "push", "repeats")

    def __init__(self, push: PeerPush, now_ms: int) -> None:
        self.push = push
        self.followed_ms = now_ms
        """When it acknowledged something of this term; at first the beginning of the term."""
        self.beat_ms = now_ms
        """When it gets its next heartbeat."""
        self.repeats = 0
        self.code: int = DledgerCode.SUCCESS
        """Of its last answer to a heartbeat."""
        self.old_log: OldLog = UNTOLD


class Leadership:
    """The side of a member that leads."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._peers: dict[str, _Peer] = {}
        self._slices = Slices(state.log, state.settings.push_bytes)
        self._first_own = 0
        """Index of the first entry of this term."""
        self._end = -1
        """So far the log may be sent."""
        self._counts = True
        """A peer's log has grown, or no peer is needed: what is committed has to be counted."""
        state.role_listeners.append(self._role_changed)

    def match_index(self, peer: str) -> int:
        """Up to here its log is known to be the same; -1 for nothing."""
        known = self._peers.get(peer)
        return -1 if known is None else known.push.match

    def old_log(self, peer: str) -> OldLog:
        """What it has in front of its entries, as far as it has told in this term."""
        known = self._peers.get(peer)
        return UNTOLD if known is None else known.old_log

    def follows(self, peer: str, now_ms: int) -> bool:
        """It was heard within the time that a leader may be without a quorum."""
        return now_ms <= self.follows_until_ms(peer)

    def follows_until_ms(self, peer: str) -> int:
        """The end of that time, unless it is heard again; in the past for who is not known."""
        known = self._peers.get(peer)
        return -1 if known is None else known.followed_ms + self._silence_ms

    def is_level(self, peer: str) -> bool:
        """It follows, and has all that there is."""
        known = self._peers.get(peer)
        return (
            known is not None
            and known.code == DledgerCode.SUCCESS
            and known.push.follows
            and known.push.match >= self._state.log.end_index
        )

    @property
    def _silence_ms(self) -> int:
        return self._state.settings.max_leak * self._state.settings.heartbeat_ms

    def _quorum_heard_ms(self) -> int | None:
        """When a quorum was last heard, itself counted; None if it is one."""
        needed = self._state.settings.quorum - 1
        if needed == 0:
            return None
        return sorted((peer.followed_ms for peer in self._peers.values()), reverse=True)[needed - 1]

    @property
    def deadline_ms(self) -> int | None:
        """The next heartbeat or push, or the end of patience."""
        if self._state.role is not Role.LEADER or not self._peers:
            return None
        heard = self._quorum_heard_ms()
        times = [] if heard is None else [heard + self._silence_ms + 1]
        for peer in self._peers.values():
            times.append(peer.beat_ms)
            push = peer.push.deadline_ms
            if push is not None:
                times.append(push)
        return min(times)

    def tick(self, now_ms: int) -> bool:
        """Heartbeats that are due. False: no quorum for too long."""
        state = self._state
        if state.role is not Role.LEADER:
            return True
        heard = self._quorum_heard_ms()
        if heard is not None and now_ms - heard > self._silence_ms:
            return False
        for peer_id, peer in self._peers.items():
            if now_ms >= peer.beat_ms:
                self._beat(now_ms, peer_id, peer)
        return True

    def _beat(self, now_ms: int, peer_id: str, peer: _Peer) -> None:
        settings, old_log = self._state.settings, self._state.log.old_log
        peer.beat_ms = now_ms + settings.heartbeat_ms
        self._state.send(
            peer_id,
            HeartbeatRequest(
                group=settings.group,
                remote_id=peer_id,
                local_id=settings.self_id,
                leader_id=settings.self_id,
                term=self._state.term,
                heart_beat_time_interval_ms=settings.heartbeat_ms,
                old_log_end=old_log.end,
                old_log_crc=old_log.crc,
            ),
        )

    def beat_answered(
        self, now_ms: int, peer_id: str, request: HeartbeatRequest, answer: DledgerBody | None
    ) -> None:
        """What became of a heartbeat. With it this member may have stopped leading."""
        state, peer = self._state, self._peers.get(peer_id)
        if peer is None or request.term != state.term or not isinstance(answer, HeartbeatResponse):
            return
        peer.code = answer.code
        if answer.code == DledgerCode.SUCCESS:
            peer.followed_ms = now_ms
            peer.repeats = 0
            peer.old_log = OldLog(answer.old_log_end, answer.old_log_crc)
            peer.push.heard(now_ms)
        elif answer.code == DledgerCode.TERM_NOT_READY:
            if peer.repeats == 0:
                self._beat(now_ms, peer_id, peer)
            else:
                peer.beat_ms = min(peer.beat_ms, now_ms + REPEAT_MS * peer.repeats)
            peer.repeats += 1
        elif answer.code == DledgerCode.EXPIRED_TERM and answer.term > state.term:
            state.become_candidate(now_ms, answer.term)

    def push_answered(
        self, now_ms: int, peer_id: str, request: PushRequest, answer: DledgerBody | None
    ) -> bool:
        """What became of a push; True if it has no consequence but more to send."""
        peer = self._peers.get(peer_id)
        if peer is None or request.term != self._state.term:
            return False
        self._counts = True
        good = peer.push.answered(now_ms, request, answer)
        if good:
            peer.followed_ms = now_ms
        return good

    def appended(self) -> None:
        """All that the log has may be sent."""
        self._end = self._state.log.end_index

    def push(self, now_ms: int) -> None:
        """Commit what a quorum has, and send what there is to send."""
        if self._state.role is not Role.LEADER:
            return
        if self._counts:
            self._counts = not self._peers
            self._commit(self._state.log.end_index)
        for peer in self._peers.values():
            peer.push.push(now_ms, self._end)

    def _commit(self, end: int) -> None:
        state = self._state
        matches = [peer.push.match for peer in self._peers.values()]
        matches.append(end)
        matches.sort(reverse=True)
        index = matches[state.settings.quorum - 1]
        if index >= self._first_own and index > state.committed:
            state.commit(index)

    def entry_mended(self, now_ms: int) -> None:
        """What was read of the log, and is perhaps under way, may be damaged: all of it again."""
        self._slices.forget()
        for peer in self._peers.values():
            peer.push.begin_again(now_ms)

    def _role_changed(self, now_ms: int) -> None:
        self._slices.forget()
        self._peers = {}
        self._counts = True
        state = self._state
        if state.role is Role.LEADER:
            self._first_own = state.log.end_index + 1
            self.appended()
            self._peers = {
                peer: _Peer(PeerPush(state, peer, self._slices, now_ms), now_ms)
                for peer in state.settings.others
            }
            self.tick(now_ms)
