"""How a leader makes one follower's log equal to its own (class EntryDispatcher; ``dledger.md``
§3.8).

First it looks for the last entry that both have (COMPARE), then has the follower forget what is
behind it (TRUNCATE), then sends what it lacks (APPEND), many pushes under way at once; when there
is nothing to send, how far is committed (COMMIT). The original steps down one entry per COMPARE;
this looks in growing steps and halves, and begins where the follower said that its log ends.

Whatever goes wrong ends in a new COMPARE: an answer that is lost, a refusal, and a COMMIT whose
answer tells of a shorter log than was acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    DledgerCode,
    Entry,
    PushRequest,
    PushResponse,
    PushType,
)
from .slices import Slices
from .state import MemberState

SMALL_PUSH = 16
"""Fewer entries wait while ``BUSY_PUSHES`` are under way: they become more meanwhile."""
BUSY_PUSHES = 2
MOST_PUSHES = 4
"""In one turn: who lags is sent more when one of them is answered, and senders get their turns in
between."""


class _Stage(Enum):
    COMPARING = 0
    APPENDING = 1


class _Sent(NamedTuple):
    request: PushRequest
    last: int
    size: int
    sent_ms: int


class PeerPush:
    """One follower, seen from the leader, in one term."""

    def __init__(self, state: MemberState, peer: str, slices: Slices, now_ms: int) -> None:
        self._state = state
        self._peer = peer
        self._slices = slices
        self.match: int = -1
        """Up to here the follower's log is the same."""
        self._stage = _Stage.COMPARING
        self._probe: PushRequest | None = None
        """The COMPARE or TRUNCATE that is under way."""
        self._equal = -1
        self._high = state.log.end_index
        """The last common entry is not before the former, not behind the latter."""
        self._low = -1
        """The follower has nothing before it to compare with."""
        self._step = 1
        self._truncate_at: int | None = None
        self._next = 0
        self._sent: deque[_Sent] = deque()
        self._sent_bytes = 0
        self._commit: tuple[PushRequest, int] | None = None
        """The COMMIT under way, and what the follower had when it was sent."""
        self._told_commit = -1
        self._sent_ms = now_ms
        self._retry_ms = now_ms
        self._failures = 0

    @property
    def follows(self) -> bool:
        """Its log has been compared, and it is sent what it lacks."""
        return self._stage is _Stage.APPENDING

    # --- what to send

    def push(self, now_ms: int, end: int) -> None:
        """All that may be sent now of a log that ends with the index ``end``."""
        if end < 0:
            return
        if self._stage is _Stage.COMPARING:
            if self._probe is None and now_ms >= self._retry_ms:
                self._send_probe(now_ms)
            return
        settings = self._state.settings
        most = min(settings.window_requests, len(self._sent) + MOST_PUSHES)
        while (
            self._next <= end
            and len(self._sent) < most
            and self._sent_bytes < settings.window_bytes
            and (len(self._sent) < BUSY_PUSHES or end - self._next >= SMALL_PUSH)
        ):
            cut = self._slices.at(self._next)
            if cut is None:
                self._failed(now_ms)
                return
            self._send_entries(now_ms, cut.entries, cut.last, cut.size)
        if self._sent and now_ms - self._sent[0].sent_ms >= settings.push_resend_ms:
            oldest = self._sent.popleft()
            self._sent.appendleft(oldest._replace(sent_ms=now_ms))
            self._state.send(self._peer, oldest.request)
        self._send_commit(now_ms, end)

    def _request(
        self, kind: PushType, entries: Sequence[Entry], entry: Entry | None
    ) -> PushRequest:
        state, settings = self._state, self._state.settings
        return PushRequest(
            group=settings.group,
            remote_id=self._peer,
            local_id=settings.self_id,
            leader_id=settings.self_id,
            term=state.term,
            type=kind,
            entry=entry,
            batch_entry=entries,
            commit_index=state.committed,
        )

    def _send_entries(self, now_ms: int, entries: Sequence[Entry], last: int, size: int) -> None:
        request = self._request(PushType.APPEND, entries, None)
        self._sent.append(_Sent(request, last, size, now_ms))
        self._sent_bytes += size
        self._next = last + 1
        self._told_commit = request.commit_index
        self._sent_ms = now_ms
        self._state.send(self._peer, request)

    def _send_commit(self, now_ms: int, end: int) -> None:
        state, settings = self._state, self._state.settings
        idle = now_ms - self._sent_ms
        if self._next <= end:
            return
        news = state.committed > self._told_commit and not self._sent
        if idle >= (settings.commit_idle_ms if news else settings.push_resend_ms):
            request = self._request(PushType.COMMIT, [], None)
            self._commit = request, self.match
            self._told_commit = request.commit_index
            self._sent_ms = now_ms
            state.send(self._peer, request)

    @property
    def deadline_ms(self) -> int | None:
        """When ``push`` has something to do though nothing happens."""
        settings = self._state.settings
        if self._state.log.end_index < 0:
            return None
        if self._stage is _Stage.COMPARING:
            return self._retry_ms if self._probe is None else None
        if self._sent:
            again = self._sent[0].sent_ms + settings.push_resend_ms
            idle = self._sent_ms + settings.push_resend_ms
            return again if self._next <= self._state.log.end_index else min(again, idle)
        news = self._state.committed > self._told_commit
        return self._sent_ms + (settings.commit_idle_ms if news else settings.push_resend_ms)

    # --- COMPARE and TRUNCATE

    def _send_probe(self, now_ms: int) -> None:
        log = self._state.log
        begin = log.begin_index
        self._high = min(self._high, log.end_index)
        at = self._truncate_at
        if at is not None:
            at = max(at, begin)
        elif self._high < max(begin, self._low):
            self._truncate_at = at = self._equal if begin <= self._equal <= self._high else begin
        else:
            half = (max(self._equal, begin - 1, self._low - 1) + self._high + 1) // 2
            at = max(half, self._high + 1 - self._step)
        found = log.entries(at, 0)
        if not found:
            self._failed(now_ms)
            return
        kind = PushType.COMPARE if self._truncate_at is None else PushType.TRUNCATE
        self._probe = self._request(kind, [], found[0])
        self._sent_ms = now_ms
        self._state.send(self._peer, self._probe)

    def _compared(self, now_ms: int, index: int, answer: PushResponse) -> None:
        if answer.code == DledgerCode.SUCCESS:
            self._equal = index
            if answer.end_index == index:
                self._append_from(index)
            elif index >= self._high:
                self._truncate_at = index
            return
        self._low = max(answer.begin_index, 0)
        if answer.end_index < index:
            self._high, self._step = answer.end_index, 1
        elif index >= answer.begin_index:
            self._high, self._step = index - 1, self._step * 4
        if self._equal > self._high:  # it has lost what it had a moment ago
            self._equal = -1
        elif self._equal == self._high >= 0:
            self._truncate_at = self._equal

    def _append_from(self, index: int) -> None:
        self._stage = _Stage.APPENDING
        self.match = index
        self._next = index + 1
        self._told_commit = -1

    def _compare_again(self, now_ms: int, wait_ms: int, high: int | None = None) -> None:
        self._stage = _Stage.COMPARING
        self._probe = None
        self._truncate_at = None
        self._equal = self._low = -1
        self._high = self._state.log.end_index if high is None else high
        self._step = 1
        self._sent.clear()
        self._sent_bytes = 0
        self._retry_ms = now_ms + wait_ms

    def _failed(self, now_ms: int, high: int | None = None) -> None:
        """Try again, later each time."""
        settings = self._state.settings
        wait = min(settings.push_retry_ms << min(self._failures, 10), settings.push_resend_ms)
        self._failures += 1
        if high is not None:
            self.match = min(self.match, high)
        self._compare_again(now_ms, wait, high)

    def begin_again(self, now_ms: int) -> None:
        """With a COMPARE; what is under way counts no more."""
        self._compare_again(now_ms, 0)

    def heard(self, now_ms: int) -> None:
        """It has answered a heartbeat: no need to wait any more for one that was away."""
        self._retry_ms = min(self._retry_ms, now_ms)

    # --- answers

    def answered(self, now_ms: int, request: PushRequest, answer: DledgerBody | None) -> bool:
        """What became of a push; True if the follower followed."""
        if not isinstance(answer, PushResponse) or answer.term != request.term:
            answer = None
        good = answer is not None and answer.code == DledgerCode.SUCCESS
        if request is self._probe:
            self._probe = None
            self._probe_answered(now_ms, request, answer)
        elif self._commit is not None and request is self._commit[0]:
            _, had = self._commit
            self._commit = None
            if answer is not None and (not good or answer.end_index < had):
                self._failed(now_ms, answer.end_index)
        else:
            self._append_answered(now_ms, request, answer)
        return good

    def _probe_answered(
        self, now_ms: int, request: PushRequest, answer: PushResponse | None
    ) -> None:
        entry = request.entry
        usual = (DledgerCode.SUCCESS, DledgerCode.INCONSISTENT_STATE)
        if entry is None or answer is None or answer.code not in usual:
            self._failed(now_ms)
        elif request.type is PushType.COMPARE:
            self._compared(now_ms, entry.index, answer)
        elif answer.code == DledgerCode.SUCCESS:
            self._append_from(entry.index)
        else:
            self._failed(now_ms)

    def _append_answered(
        self, now_ms: int, request: PushRequest, answer: PushResponse | None
    ) -> None:
        for sent in self._sent:
            if sent.request is request:
                break
        else:
            return  # of an attempt that was given up
        if answer is None:
            self._failed(now_ms)
        elif answer.code == DledgerCode.SUCCESS:
            self._failures = 0
            self.match = max(self.match, sent.last)
            self._sent_bytes -= sent.size
            if sent is self._sent[0]:
                self._sent.popleft()
            else:
                self._sent.remove(sent)
        else:
            self._failed(now_ms, answer.end_index)
