"""What was captured of a real group, played to one member of ours in the place of one of theirs.

Everything that came to that node comes to our member, at its time; what that node did by itself
(stood, led, appended) ours is made to do, because chance and clients decided it there. Then the
answers must be the same.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from aiorocketmq.remoting.protocol.bodies.codec import BodyError
from aiorocketmq.remoting.protocol.bodies.dledger import (
    REQUEST_BODIES,
    RESPONSE_BODIES,
    DledgerBody,
    DledgerCode,
    DledgerRequestCode,
    Entry,
    HeartbeatRequest,
    MetadataResponse,
    PushRequest,
    PushResponse,
    PushType,
    TransferRequest,
    VoteRequest,
    decode_dledger,
)
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState, Role
from aiorocketmq.store.raft.settings import RaftSettings
from tests.golden_files import golden_lines

from .list_log import ListLog

PEERS = {"n0": "127.0.0.1:26841", "n1": "127.0.0.1:26842", "n2": "127.0.0.1:26843"}


class Key(NamedTuple):
    """A request on its connection."""

    connection: Any
    opaque: int


class Frame(NamedTuple):
    """One captured frame with a body that we know."""

    at_ms: int
    step: str
    key: Key
    sender: str
    receiver: str
    code: DledgerRequestCode
    is_request: bool
    body: DledgerBody


def frames(name: str) -> Iterator[Frame]:
    """Of the whole group. Frames of other codes, and bodies that are broken on purpose, are left
    out."""
    for line in golden_lines(f"dledger/{name}-dledger-wire"):
        is_request = line["kind"] == "req"
        number = line["code"] if is_request else line["reqCode"]
        raw = bytes.fromhex(line["hex"])
        (head,) = struct.unpack_from(">i", raw, 4)
        body = raw[8 + (head & 0xFFFFFF) :]
        try:
            code = DledgerRequestCode(number)
            kind = (REQUEST_BODIES if is_request else RESPONSE_BODIES)[code]
            value = decode_dledger(kind, body)
        except (ValueError, KeyError, BodyError):
            continue
        yield Frame(
            round(line["t"] * 1000),
            line["step"],
            Key(line["conn"], line["opaque"]),
            line["from"],
            line["to"],
            code,
            is_request,
            value,
        )


class Difference(NamedTuple):
    """An answer that is not the same."""

    step: str
    request: DledgerBody
    theirs: DledgerBody
    ours: DledgerBody | None


def told(body: DledgerBody) -> dict[str, object]:
    """An answer's fields without those that only we write, or fill."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    if isinstance(body, MetadataResponse):
        known = ("code", "group", "leader_id", "peers", "local_id", "remote_id")
        return {name: fields[name] for name in known}
    return fields


class Replay:
    """Our member in the place of a node."""

    def __init__(self, name: str, node: str, *, wiped_in: Collection[str] = ()) -> None:
        """``wiped_in``: in these steps the node is killed, emptied and started."""
        self.node = node
        self.log = ListLog()
        self.hard = HardState()
        self.committed = -1
        self.now = 0
        self.member: Member | None = None
        self.answers: dict[Key, DledgerBody] = {}
        self.asked: dict[Key, DledgerBody] = {}
        self.early: list[tuple[DledgerBody, Key]] = []
        """Pushes that were handled by the original only after the next heartbeat."""
        self.differences: list[Difference] = []
        self.compared = 0
        self.frames = list(frames(name))
        self.theirs = {f.key: f.body for f in self.frames if not f.is_request and f.sender == node}
        self._wiped_in = set(wiped_in)
        self._unanswered: list[tuple[Key, Frame]] = []

    def boot(self) -> None:
        """The node is started, with what it has. One that knows nothing votes for itself."""
        settings = RaftSettings(
            "RaftG", self.node, PEERS, heartbeat_ms=2000, vote_min_ms=300, vote_max_ms=1000
        )
        self.early.clear()
        self.member = Member(
            settings,
            self.hard,
            self.log,
            lambda low, _: low,
            self.now,
            committed=self.committed,
            votes=True,
        )
        if self.hard == HardState():
            self.member._state.vote_for(self.node)
        self.turn()

    def turn(self) -> None:
        assert self.member is not None
        ready = self.member.take(self.now)
        self.hard = ready.hard_state or self.hard
        self.committed = self.member.committed_index
        for token, body in ready.answers:
            self.answers[token] = body

    def play(self, frame: Frame) -> None:
        """One frame of the group."""
        self.pass_time(frame.at_ms)
        if self.node not in (frame.sender, frame.receiver) or self.member is None:
            return
        if frame.is_request:
            self.asked[frame.key] = frame.body
            if frame.receiver == self.node:
                self.receive(frame)
            else:
                self.follow(frame.body)
        elif frame.sender == self.node:
            self._unanswered.append((frame.key, frame))
        else:
            self.hear(frame)
        self.turn()

    def receive(self, frame: Frame) -> None:
        assert self.member is not None
        request, theirs = frame.body, self.theirs.get(frame.key)
        if frame.step in self._wiped_in and knows_nothing(theirs):
            self._wiped_in.remove(frame.step)
            self.log, self.hard, self.committed = ListLog(), HardState(), -1
            self.boot()
        if isinstance(request, PushRequest) and isinstance(theirs, PushResponse):
            if request.type is PushType.COMMIT:
                self.catch_up(request.term, theirs)
            follows = self.member.role is Role.FOLLOWER
            if not follows and theirs.code != DledgerCode.NOT_FOLLOWER:
                self.early.append((request, frame.key))
                return
        self.member.receive(self.now, request, frame.key)
        if isinstance(request, HeartbeatRequest) and self.member.role is Role.FOLLOWER:
            for early, key in self.early:
                self.member.receive(self.now, early, key)
            self.early.clear()

    def catch_up(self, term: int, theirs: PushResponse) -> None:
        """With entries whose pushes are left out of the stream."""
        while 0 <= self.log.end_index < theirs.end_index:
            self.log.put(term, b"left out of the stream")
        while 0 <= self.log.begin_index < theirs.begin_index:
            del self.log.stored[0]

    def pass_time(self, at_ms: int) -> None:
        while self.member is not None and self.member.next_deadline_ms <= at_ms:
            self.now = max(self.now + 1, self.member.next_deadline_ms)
            self.member.tick(self.now)
            self.turn()
        self.now = at_ms

    def follow(self, request: DledgerBody) -> None:
        """What the node did by itself, as its request shows."""
        assert self.member is not None
        state = self.member._state
        if isinstance(request, VoteRequest):
            if state.role is not Role.CANDIDATE or request.term > state.term:
                state.become_candidate(self.now, request.term)
            if state.vote is None:
                state.vote_for(self.node)
        elif isinstance(request, HeartbeatRequest) and state.role is not Role.LEADER:
            if request.term == state.term:
                state.become_leader(self.now)
        elif isinstance(request, PushRequest):
            entries: Sequence[Entry | None] = request.batch_entry or [request.entry]
            for entry in entries:
                if entry is not None and entry.index == self.log.end_index + 1:
                    self.log.append([entry])

    def hear(self, frame: Frame) -> None:
        """An answer to the node's request, as if our member had asked."""
        assert self.member is not None
        asked = self.asked.pop(frame.key, None)
        given = [each.forwarded for each in self.member._transfer._given.values()]
        if isinstance(asked, HeartbeatRequest):
            self.member.answered(self.now, frame.sender, asked, frame.body)
        elif isinstance(asked, TransferRequest) and given:
            self.member.answered(self.now, frame.sender, given[0], frame.body)

    def compare(self) -> None:
        """All answers, once everything was played: the original's threads may have overtaken each
        other."""
        for key, frame in self._unanswered:
            ours = self.answers.pop(key, None)
            self.compared += 1
            if ours is None or told(ours) != told(frame.body):
                self.differences.append(Difference(frame.step, self.asked[key], frame.body, ours))


def knows_nothing(answer: DledgerBody | None) -> bool:
    """Of a node that has just been emptied."""
    if isinstance(answer, PushResponse):
        return answer.end_index == -1
    return answer is not None and answer.code == DledgerCode.TERM_NOT_READY
