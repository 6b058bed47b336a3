"""What a member does with heartbeats and pushes of a leader (classes DLedgerLeaderElector,
EntryHandler; ``dledger.md`` §3.5, §3.9).

Safer than the original where its peers cannot see it: an entry is taken, and a commit index
believed, only as far as the log is known to be the leader's (``_matched``): the last entry is of
the leader's term, or was compared in it. What is known to be the leader's is never truncated, so
that a TRUNCATE which comes late, or twice, does no harm; what is committed is never replaced. An
entry that is not the leader's though its term says so is of another group: the disks of most
members were lost, and these began anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...remoting.protocol.bodies.dledger import (
    DledgerCode,
    Entry,
    HeartbeatRequest,
    HeartbeatResponse,
    PushRequest,
    PushResponse,
    PushType,
)
from ...remoting.protocol.bodies.stored_entries import body_bytes, first_and_last
from .catch_up import CatchUp
from .entry_log import CommittedConflict, EntryLogError
from .old_log import OldLog
from .ready import Role
from .settings import JAVA_HEARTBEAT_MS
from .state import MemberState

MAX_PACE_MS = 60_000
"""The slowest heart that is believed."""
EARLY_PUSH_MS = 1000
"""A push waits so long for those before it."""
MAX_EARLY_COPIES = 8
"""So often the same push may wait."""


class _Early(NamedTuple):
    """Entries whose predecessors are still on their way."""

    request: PushRequest
    entries: Sequence[Entry]
    tokens: list[Any]
    size: int
    since_ms: int


class Follower:
    """The side of a member that is led."""

    def __init__(self, state: MemberState, catch_up: CatchUp) -> None:
        self._state = state
        self._catch_up = catch_up
        self._early: dict[int, _Early] = {}
        self._early_bytes = 0
        self._compared = -1
        """In the present term the log was found equal to the leader's up to here."""
        self._compared_term = -1
        self.trouble: str | None = None
        """Why the log did not take what the leader sent last; None: it did."""
        self.heard_ms: int = 0
        self.pace_ms: int = state.settings.heartbeat_ms
        state.role_listeners.append(self._role_changed)

    @property
    def waits(self) -> bool:
        """Pushes wait for those before them."""
        return bool(self._early)

    @property
    def deadline_ms(self) -> int | None:
        """When it gives its leader up, or a push that came too early."""
        if self._state.role is not Role.FOLLOWER:
            return None
        silent = self.heard_ms + self._state.settings.max_leak * self.pace_ms + 1
        if not self._early:
            return silent
        return min(silent, *(early.since_ms + EARLY_PUSH_MS for early in self._early.values()))

    def tick(self, now_ms: int) -> bool:
        """False: the leader was silent for too long."""
        if self._state.role is not Role.FOLLOWER:
            return True
        if now_ms - self.heard_ms > self._state.settings.max_leak * self.pace_ms:
            return False
        if self._early:
            late = [i for i, e in self._early.items() if now_ms - e.since_ms >= EARLY_PUSH_MS]
            for index in late:
                self._drop(index, DledgerCode.INCONSISTENT_STATE)
        return True

    # --- heartbeats

    def heartbeat(self, now_ms: int, request: HeartbeatRequest) -> HeartbeatResponse:
        """In the order of §3.5."""
        state, leader = self._state, request.leader_id
        if leader is None or leader not in state.settings.peers:
            return HeartbeatResponse(code=DledgerCode.UNKNOWN_MEMBER, term=state.term)
        if leader == state.settings.self_id:
            return HeartbeatResponse(code=DledgerCode.UNEXPECTED_MEMBER, term=state.term)
        if request.term < state.term:
            return HeartbeatResponse(code=DledgerCode.EXPIRED_TERM, term=state.term)
        if request.term > state.term:
            state.become_candidate(now_ms, request.term)
            return HeartbeatResponse(code=DledgerCode.TERM_NOT_READY)
        if state.leader_id is None:
            state.become_follower(now_ms, leader)
        elif state.leader_id != leader:
            return HeartbeatResponse(code=DledgerCode.INCONSISTENT_LEADER)
        pace = request.heart_beat_time_interval_ms or JAVA_HEARTBEAT_MS
        self.pace_ms = min(max(pace, 1), MAX_PACE_MS)
        self.heard_ms = now_ms
        state.leader_old_log = OldLog(request.old_log_end, request.old_log_crc)
        if request.old_log_end is None:  # it does not read it either
            return HeartbeatResponse()
        own = state.log.old_log
        return HeartbeatResponse(old_log_end=own.end, old_log_crc=own.crc)

    # --- pushes

    def push(self, now_ms: int, request: PushRequest, token: Any) -> bool:
        """Answered at once, or when its turn has come. False: it has no entry, and is no COMMIT;
        then nothing is done."""
        entries: Sequence[Entry] = request.batch_entry
        count = len(entries)
        if not count and request.entry is not None:
            entries, count = (request.entry,), 1
        if request.type is PushType.COMMIT:
            count = 0
        elif not count:
            return False
        first, last = first_and_last(entries) if count else (None, -1)
        if self._state.role is not Role.FOLLOWER:
            self._answer(token, request, first, count, DledgerCode.NOT_FOLLOWER)
        elif first is None:
            code = self._take_commit(now_ms, request, self._matched())
            self._answer(token, request, None, 0, code)
        elif request.type is not PushType.APPEND:
            self._drop_all(DledgerCode.INCONSISTENT_STATE)
            change = self._compare if request.type is PushType.COMPARE else self._truncate
            self._answer(token, request, first, count, change(now_ms, request, entries[0]))
        elif not self._led_by(request) or last - first != count - 1:
            self._answer(token, request, first, count, DledgerCode.INCONSISTENT_STATE)
        else:
            self.heard_ms = now_ms
            if first > self._state.log.end_index + 1:
                self._wait_for_turn(now_ms, request, entries, token)
            else:
                code = self._store(now_ms, request, entries, first, last)
                self._answer(token, request, first, count, code)
                if self._early:
                    self._store_early(now_ms)
        return True

    def _led_by(self, request: PushRequest) -> bool:
        state = self._state
        return request.term == state.term and request.leader_id == state.leader_id

    def _matched(self) -> int:
        """Up to here the log is the leader's of this term."""
        state = self._state
        if state.log.end_term == state.term:
            return state.log.end_index
        return self._compared if self._compared_term == state.term else -1

    def _found_equal(self, index: int) -> None:
        """In the present term, by the Log Matching property also everything before."""
        if self._compared_term != self._state.term:
            self._compared_term, self._compared = self._state.term, index
        else:
            self._compared = max(self._compared, index)

    def _compare(self, now_ms: int, request: PushRequest, entry: Entry) -> DledgerCode:
        if not self._state.log.matches(entry):
            return DledgerCode.INCONSISTENT_STATE
        if self._led_by(request):
            self.heard_ms = now_ms
            self._found_equal(entry.index)
        return DledgerCode.SUCCESS

    def _truncate(self, now_ms: int, request: PushRequest, entry: Entry) -> DledgerCode:
        if not self._led_by(request) or entry.index < 0:
            return DledgerCode.INCONSISTENT_STATE
        self.heard_ms = now_ms
        try:
            matched, log = self._matched(), self._state.log
            if entry.index <= matched and log.matches(entry):
                log.truncate(max(matched, self._state.committed))
            else:
                self._cut_at(now_ms, entry)
                self._found_equal(entry.index)
        except EntryLogError as error:
            self.trouble = str(error)
            return DledgerCode.INCONSISTENT_STATE
        self.trouble = None
        self._take_commit(now_ms, request, self._matched())
        return DledgerCode.SUCCESS

    def _cut_at(self, now_ms: int, entry: Entry) -> None:
        """The log ends with this entry, or with a later one that is committed."""
        state, log = self._state, self._state.log
        if log.matches(entry):
            log.truncate(max(entry.index, state.committed))
            return
        if log.begin_index <= entry.index <= log.end_index and not log.entries(entry.index, 0):
            raise EntryLogError(f"entry {entry.index} cannot be read: it may be the same")
        if entry.index < log.begin_index <= state.committed:
            raise EntryLogError(f"entry {entry.index} was deleted here")
        # where the log could not begin anew, for lack of space, nothing is left to be replaced
        if entry.index <= state.committed and log.end_index >= 0:
            raise CommittedConflict(
                f"the leader {state.leader_id} of term {state.term} wants to replace entry "
                f"{entry.index}, but entries up to {state.committed} are committed here: the "
                "members' logs do not belong together. Compare them with mqstore before one is "
                "emptied"
            )
        self._catch_up.storing()
        follows = log.begin_index < entry.index <= max(self._matched(), state.committed) + 1
        if follows and (log.end_index >= 0 or log.position_for(entry.size) == entry.pos):
            log.truncate(entry.index - 1)
            log.append((entry,))
        else:  # the first that the leader has: nobody knows whether those before it are the same
            log.begin_with(entry)

    def _store_early(self, now_ms: int) -> None:
        """What waited for what is there now."""
        while (early := self._early.pop(self._state.log.end_index + 1, None)) is not None:
            self._early_bytes -= early.size
            first, last = first_and_last(early.entries)
            code = self._store(now_ms, early.request, early.entries, first, last)
            for waiting in early.tokens:
                self._answer(waiting, early.request, first, len(early.entries), code)

    def _store(
        self, now_ms: int, request: PushRequest, entries: Sequence[Entry], first: int, last: int
    ) -> DledgerCode:
        """Entries that follow the last one, or are there already, or both."""
        log = self._state.log
        end = log.end_index
        if (known := end + 1 - first) > 0:
            if not all(map(log.matches, entries[:known])):
                return DledgerCode.INCONSISTENT_STATE
            self._found_equal(min(end, last))
            entries = entries[known:]
        matched = self._matched()
        if last > end:
            if matched != end:
                return DledgerCode.INCONSISTENT_STATE
            self._catch_up.storing()
            try:
                log.append(entries)
            except EntryLogError as error:
                self.trouble = str(error)
                self._found_equal(log.end_index)
                return DledgerCode.INCONSISTENT_STATE
            self._found_equal(last)
            matched, self.trouble = last, None
        self._take_commit(now_ms, request, matched)
        return DledgerCode.SUCCESS

    def _wait_for_turn(
        self, now_ms: int, request: PushRequest, entries: Sequence[Entry], token: Any
    ) -> None:
        settings = self._state.settings
        first = entries[0].index
        early = self._early.get(first)
        if (
            early is not None
            and len(early.entries) == len(entries)
            and len(early.tokens) < MAX_EARLY_COPIES
        ):
            early.tokens.append(token)
            return
        size = body_bytes(entries)
        if (
            early is not None
            or len(self._early) >= settings.reorder_requests
            or self._early_bytes + size > settings.reorder_bytes
        ):
            self._answer(token, request, first, len(entries), DledgerCode.PUSH_REQUEST_IS_FULL)
            return
        self._early[first] = _Early(request, entries, [token], size, now_ms)
        self._early_bytes += size

    def _take_commit(self, now_ms: int, request: PushRequest, matched: int) -> DledgerCode:
        """406: it is not known whether what is committed is the same here: of the log only what
        ends with ``matched`` is. A leader of ours then compares; the original looks at no answer to
        a COMMIT."""
        state = self._state
        if not self._led_by(request):
            return DledgerCode.SUCCESS
        self.heard_ms = now_ms
        told = request.commit_index
        self._catch_up.told_commit(told)
        if told <= state.committed:
            return DledgerCode.SUCCESS
        index = min(told, matched)
        if index > state.committed:
            state.commit(index)
            self._catch_up.committed(now_ms)
        unknown = told > matched and min(told, state.log.end_index) > max(matched, state.committed)
        return DledgerCode.INCONSISTENT_STATE if unknown else DledgerCode.SUCCESS

    # --- answers

    def _answer(
        self, token: Any, request: PushRequest, first: int | None, count: int, code: DledgerCode
    ) -> None:
        log = self._state.log
        self._state.answer(
            token,
            PushResponse(
                group=request.group,
                term=request.term,
                code=code,
                index=first,
                count=count,
                begin_index=log.begin_index,
                end_index=log.end_index,
            ),
        )

    def _drop(self, first: int, code: DledgerCode) -> None:
        early = self._early.pop(first)
        self._early_bytes -= early.size
        for token in early.tokens:
            self._answer(token, early.request, first, len(early.entries), code)

    def _drop_all(self, code: DledgerCode) -> None:
        for index in list(self._early):
            self._drop(index, code)

    def _role_changed(self, now_ms: int) -> None:
        self._drop_all(DledgerCode.NOT_FOLLOWER)
        self.heard_ms, self.trouble = now_ms, None
