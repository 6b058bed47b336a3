"""Members for tests: one alone whose peers the test plays, or a group on a network that delivers
everything at once, in order, and a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    PushRequest,
    PushResponse,
    PushType,
    VoteRequest,
    VoteResponse,
)
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState, Outgoing, Ready, Role, RoleChange
from aiorocketmq.store.raft.settings import RaftSettings

from .list_log import ListLog

B = TypeVar("B", bound=DledgerBody)
NAMES = ("n0", "n1", "n2")


def settings(self_id: str = "n0", names: Collection[str] = NAMES, **other: Any) -> RaftSettings:
    return RaftSettings("G", self_id, {name: f"{name}:1" for name in names}, **other)


def log_of(*terms: int) -> ListLog:
    """With one entry of each of these terms."""
    log = ListLog()
    for number, term in enumerate(terms):
        log.put(term, b"%d" % number)
    return log


class Alone:
    """One member, whose requests and answers the test sees."""

    def __init__(
        self,
        *terms: int,
        hard: HardState | None = None,
        votes: bool = True,
        committed: int = -1,
        **other: Any,
    ) -> None:
        self.log = log_of(*terms)
        self.now = 0
        self.deposed = 0
        self.member = Member(
            settings(**other),
            hard or HardState(terms[-1] if terms else 0),
            self.log,
            lambda low, high: low,
            0,
            committed=committed,
            votes=votes,
            deposed=self._depose,
        )
        self.requests: list[Outgoing] = []
        self.hard: HardState | None = None
        self.last = self.take()

    def _depose(self) -> None:
        self.deposed += 1

    def put(self, term: int, body: bytes) -> None:
        """As the leader's own store."""
        self.log.put(term, body)
        self.member.appended(self.now)

    def take(self) -> Ready:
        self.last = self.member.take(self.now)
        self.hard = self.last.hard_state or self.hard
        self.requests += self.last.requests
        return self.last

    def ask(self, kind: type[B], request: DledgerBody) -> B:
        """The answer, which comes at once."""
        self.member.receive(self.now, request, "token")
        answers = [answer.body for answer in self.take().answers if answer.token == "token"]
        assert len(answers) == 1
        assert isinstance(answers[0], kind)
        return answers[0]

    def vote(self, term: int, end: tuple[int, int], candidate: str = "n1") -> VoteResponse:
        """``end``: term and index of the candidate's last entry."""
        request = VoteRequest(
            group="G",
            remote_id="n0",
            local_id=candidate,
            leader_id=candidate,
            term=term,
            ledger_end_term=end[0],
            ledger_end_index=end[1],
        )
        return self.ask(VoteResponse, request)

    def beat(self, term: int, leader: str = "n1", pace: int | None = 300) -> HeartbeatRequest:
        return HeartbeatRequest(
            group="G",
            remote_id="n0",
            local_id=leader,
            leader_id=leader,
            term=term,
            heart_beat_time_interval_ms=pace,
        )

    def follow(self, term: int, leader: str = "n1") -> None:
        for _ in range(2):
            self.member.receive(self.now, self.beat(term, leader), None)
        self.take()
        assert self.member.role is Role.FOLLOWER

    def push(self, kind: PushType, term: int, *entries: Any, **other: Any) -> PushRequest:
        return PushRequest(
            group="G",
            remote_id="n0",
            local_id="n1",
            leader_id=other.pop("leader_id", "n1"),
            term=term,
            type=kind,
            entry=entries[0] if len(entries) == 1 else None,
            batch_entry=list(entries) if len(entries) > 1 else [],
            **other,
        )

    def pushed(self, kind: PushType, term: int, *entries: Any, **other: Any) -> PushResponse:
        return self.ask(PushResponse, self.push(kind, term, *entries, **other))

    def sent(self, kind: type[B]) -> list[B]:
        """Requests of this kind since the last call of it; all others are forgotten."""
        found = [out.request for out in self.requests if isinstance(out.request, kind)]
        self.requests.clear()
        return found

    def tell_end(
        self, peer: str, end: tuple[int, int], *, votes: bool = True, term: int = -1
    ) -> None:
        """This peer answers all that it was asked: its log ends with this term and index."""
        told = MetadataResponse(
            ledger_end_term=end[0], ledger_end_index=end[1], votes=votes, term=term
        )
        for out in [out for out in self.requests if out.peer == peer]:
            if isinstance(out.request, MetadataRequest):
                self.requests.remove(out)
                self.member.answered(self.now, peer, out.request, told)
        self.take()

    def wait(self, ms: int) -> None:
        """The clock goes on, with a tick at each deadline."""
        until = self.now + ms
        while self.member.next_deadline_ms <= until:
            self.now = max(self.now, self.member.next_deadline_ms)
            self.member.tick(self.now)
            self.take()
        self.now = until

    def stand(self) -> VoteRequest:
        """It becomes a candidate whom everybody would have, and asks for votes."""
        while True:
            for out in list(self.requests):
                if isinstance(out.request, MetadataRequest):
                    self.requests.remove(out)
                    answer = MetadataResponse(ledger_end_index=-1, ledger_end_term=-1, votes=True)
                    self.member.answered(self.now, out.peer, out.request, answer)
                    self.take()
            asked = [out.request for out in self.requests if isinstance(out.request, VoteRequest)]
            if asked:
                return asked[0]
            self.wait(50)


class Call(NamedTuple):
    """A request under way in a group."""

    name: str
    out: Outgoing


class Group:
    """Members that talk to each other."""

    def __init__(self, logs: dict[str, ListLog] | None = None, **other: Any) -> None:
        self.logs = logs or {name: ListLog() for name in NAMES}
        self.other = other
        self.now = 0
        self.random = random.Random(7)
        self.down: set[str] = set()
        self.cut: set[tuple[str, str]] = set()
        self.hung: set[str] = set()
        """What is sent to them is never answered, nor refused."""
        self.members: dict[str, Member] = {}
        self.hard: dict[str, HardState] = {}
        self.requests: list[tuple[str, Outgoing]] = []
        self.roles: list[tuple[int, str, RoleChange]] = []
        self.answers: dict[Any, DledgerBody] = {}
        self.writes: Callable[[str], bool] = lambda _: True
        """Whether the store of a new leader puts the record that the member asks for."""
        self._queue: list[tuple[str, Outgoing]] = []
        for name in self.logs:
            self.start(name)

    def start(self, name: str, *, votes: bool = True, committed: int = -1) -> None:
        self.down.discard(name)
        log = self.logs[name]
        self.members[name] = Member(
            settings(name, tuple(self.logs), **self.other),
            self.hard.get(name, HardState(max(log.end_term, 0))),
            log,
            self.random.randint,
            self.now,
            committed=committed,
            votes=votes,
        )
        self._take(name)

    def cut_off(self, away: str) -> None:
        """From all others, both ways."""
        self.cut = {(a, b) for a in self.logs for b in self.logs if away in (a, b)}

    def _take(self, name: str) -> None:
        ready = self.members[name].take(self.now)
        if ready.hard_state is not None:
            self.hard[name] = ready.hard_state
        for answer in ready.answers:
            if isinstance(answer.token, Call):
                self._answered(answer.token, answer.body)
            else:
                self.answers[answer.token] = answer.body
        for out in ready.requests:
            self.requests.append((name, out))
            self._queue.append((name, out))
        if ready.role is not None:
            self.roles.append((self.now, name, ready.role))
        if ready.append_noop and self.writes(name):
            self.put(name, b"noop")

    def put(self, name: str, body: bytes) -> None:
        self.logs[name].put(self.members[name].term, body)
        self.members[name].appended(self.now)
        self._take(name)

    def settle(self) -> None:
        """Everything that is under way arrives."""
        while self._queue:
            name, out = self._queue.pop(0)
            call = Call(name, out)
            if out.peer in self.hung:
                continue
            if out.peer in self.down or (name, out.peer) in self.cut:
                self._answered(call, None)
            else:
                self.members[out.peer].receive(self.now, self.on_the_wire(out.request), call)
                self._take(out.peer)

    def _answered(self, call: Call, answer: DledgerBody | None) -> None:
        if (call.out.peer, call.name) in self.cut:
            answer = None
        if call.name not in self.down:
            member = self.members[call.name]
            seen = None if answer is None else self.on_the_wire(answer)
            member.answered(self.now, call.out.peer, call.out.request, seen)
            self._take(call.name)

    def wait(self, ms: int) -> None:
        until = self.now + ms
        self.settle()
        while True:
            up = [name for name in self.members if name not in self.down | self.hung]
            at = min(self.members[name].next_deadline_ms for name in up)
            if at > until:
                break
            self.now = max(self.now, at)
            for name in up:
                if self.members[name].next_deadline_ms <= self.now:
                    self.members[name].tick(self.now)
                    self._take(name)
            self.settle()
        self.now = until

    def elect(self) -> str:
        """Waits until somebody leads. Who."""
        for _ in range(100):
            leaders = [name for name in self.leaders() if name not in self.down]
            if len(leaders) == 1:
                return leaders[0]
            self.wait(100)
        raise AssertionError(f"nobody leads after 10 s: {self.roles}")

    def on_the_wire(self, body: DledgerBody) -> DledgerBody:
        """What the other end gets of it."""
        return body

    def leaders(self) -> list[str]:
        return [n for n, member in self.members.items() if member.role is Role.LEADER]
