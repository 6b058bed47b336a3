"""A group of pure members on a network, with disks and clocks, that do their worst, and a checker
of what Raft promises (Ongaro, Ousterhout: In Search of an Understandable Consensus Algorithm,
figure 3). One seed is one schedule.

* **Election safety**: a term has one leader, and that leads it once, not again after a crash.
* **Log matching**: an entry of one index and term is the same in all logs, so is the one before.
* **Leader completeness**: a leader has every entry that was committed in an earlier term.
* **State machine safety**: what one member has committed at an index, no other commits differently,
  and nobody removes it.

What may happen: messages are lost, doubled, reordered and late; links are cut in one direction or
both; disks are full; members stop for a while, are killed (their log stays, and what they had not
made durable of term and vote goes), lose power (the log loses its end, too), or lose their log. The
latter two come to fewer members at a time than a quorum needs: more is more than Raft promises.

World and checker are one file: what may happen is what must not break a promise.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    Entry,
    PushRequest,
    PushType,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.entry_log import EntryLogError
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.old_log import NO_OLD_LOG, UNTOLD, OldLog
from aiorocketmq.store.raft.ready import HardState, Outgoing, Ready, Role
from aiorocketmq.store.raft.settings import RaftSettings

from .list_log import ListLog

CALL_MS = 3000
"""A call without an answer has failed."""


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(eq=False, slots=True)
class Call:
    """A request under way, as its sender knows it; ``peer`` is the sender's name where it came from
    outside."""

    node: Node
    life: int
    peer: str
    request: DledgerBody
    done: bool = False


class Message(NamedTuple):
    """On the network: a request; or an answer; or the news that there is none."""

    call: Call
    is_request: bool
    answer: DledgerBody | None


class Facts:
    """What has happened in the group, in the eyes of the checker."""

    def __init__(self) -> None:
        self.leaders: dict[int, tuple[str, int]] = {}
        self.entries: dict[tuple[int, int], tuple[Entry, int | None]] = {}
        """By index and term: the entry and the term of the one before, where that is known."""
        self.committed: dict[int, tuple[Entry, int]] = {}
        """By index: the entry, and the term of the member that committed it first."""
        self.last_committed = -1

    def stored(self, entry: Entry, before: int | None) -> None:
        key = entry.index, entry.term
        known = self.entries.get(key)
        if known is None:
            self.entries[key] = entry, before
            return
        if known[0] != entry or (None not in (before, known[1]) and before != known[1]):
            raise Violation(f"log matching: {entry.index} of term {entry.term} differs")
        if known[1] is None:
            self.entries[key] = entry, before

    def leads(self, term: int, who: str, life: int, log: ListLog) -> None:
        if self.leaders.setdefault(term, (who, life)) != (who, life):
            raise Violation(f"election safety: term {term} is led by {self.leaders[term]}, {who}")
        begin = max(log.begin_index, 0)
        for index in range(begin, self.last_committed + 1):
            entry, by_term = self.committed.get(index, (None, term))
            if entry is not None and by_term < term and not log.matches(entry):
                raise Violation(f"leader completeness: {who} of term {term} lacks {index}")

    def commits(self, log: ListLog, old: int, new: int, term: int, who: str) -> None:
        if new > log.end_index:
            raise Violation(f"{who} commits {new}, its log ends with {log.end_index}")
        for index in range(max(old + 1, log.begin_index), new + 1):
            entry = log.stored[index - log.begin_index]
            known = self.committed.setdefault(index, (entry, term))[0]
            if known != entry:
                raise Violation(f"state machine safety: {who} commits another {index}")
        self.last_committed = max(self.last_committed, new)


class CheckedLog(ListLog):
    """Tells the checker of each entry, and refuses to give up what is committed."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts
        self.synced = -1
        self.committed = -1
        self.space: int | None = None
        """So many entries of a leader fit; None: any number."""

    def _note(self, first: int) -> None:
        for at in range(max(0, first), len(self.stored)):
            self.facts.stored(self.stored[at], self.stored[at - 1].term if at else None)

    def append(self, entries: Sequence[Entry]) -> None:
        at = len(self.stored)
        fit = entries if self.space is None else entries[: self.space]
        super().append(fit)
        self._note(at)
        if self.space is not None:
            self.space -= len(fit)
            if len(fit) < len(entries):
                raise EntryLogError("the disk is full")

    def put(self, term: int, body: bytes) -> Entry:
        entry = super().put(term, body)
        self._note(len(self.stored) - 1)
        return entry

    def truncate(self, end_index: int) -> None:
        if end_index < self.committed:
            raise Violation(f"truncated to {end_index}, committed is {self.committed}")
        super().truncate(end_index)
        self.synced = min(self.synced, self.end_index)

    def begin_with(self, entry: Entry) -> None:
        if entry.index <= self.committed:
            raise Violation(f"begins anew with {entry.index}, committed is {self.committed}")
        if self.space == 0:
            raise EntryLogError("the disk is full")
        super().begin_with(entry)
        self.synced = -1


@dataclass(eq=False)
class Node:
    """A member's machine: what survives it, and what does not."""

    name: str
    settings: RaftSettings
    facts: Facts
    rate: float
    log: CheckedLog
    hard: HardState
    votes: bool = True
    kept_committed: int = -1
    life: int = 0
    member: Member | None = None
    leads_term: int = -1
    """In which the store takes entries; -1: in none."""
    held: list[Ready] = field(default_factory=list)
    """What waits for the first one's hard state to become durable."""
    paused: bool = False

    def deposed(self) -> None:
        self.leads_term = -1


class Odds(NamedTuple):
    """How often what happens: drawn for each schedule (swarm testing)."""

    lose: float
    double: float
    in_order: float
    hold_sync: float
    fault: float
    put: float
    cut: float
    stand: float
    time: float
    malice: float
    """Trouble just when it hurts: the voter dies with its vote, the leader with what it has
    committed, a new leader is cut off with its first entry, two stand at once, and a TRUNCATE comes
    again much later."""
    back: float


def odds_of(rng: random.Random) -> Odds:
    """Of one schedule: most have a few kinds of trouble only."""

    def some(often: float, most: float) -> float:
        return rng.random() * most if rng.random() < often else 0.0

    return Odds(
        lose=some(0.5, 0.2),
        double=some(0.5, 0.3),
        in_order=rng.choice((1.0, 0.9, 0.5, 0.0)),
        hold_sync=some(0.5, 0.9),
        fault=some(0.9, 0.04),
        put=rng.choice((0.02, 0.1, 0.3)),
        cut=some(0.5, 0.02),
        stand=some(0.8, 0.04),
        time=rng.choice((0.02, 0.1)),
        malice=rng.choice((0.0, 0.1, 0.5)),
        back=rng.choice((0.5, 0.9, 1.0)),
    )


OLD_LOGS = (UNTOLD, NO_OLD_LOG, OldLog(1000, 1), OldLog(2000, 2), OldLog(2000, 3))
"""What members may have from before their group; the first one is of the original."""


class World:
    """One schedule."""

    def __init__(self, seed: int, size: int) -> None:
        self.rng = random.Random(seed)
        self.facts = Facts()
        self.now = 0
        self.names = [f"n{i}" for i in range(size)]
        self.network: list[Message] = []
        self.calls: deque[tuple[int, Call]] = deque()
        """When they time out."""
        self.kept: list[Message] = []
        """What comes again."""
        self.doomed: Node | None = None
        self.cut: set[tuple[str, str]] = set()
        self.puts = 0
        self.odds = odds_of(self.rng)
        base = RaftSettings(
            "G",
            "n0",
            {name: name for name in self.names},
            heartbeat_ms=self.rng.choice((300, 3000)),
            push_bytes=self.rng.choice((1, 20, 65_536)),
            window_requests=self.rng.choice((1, 2, 16)),
        )
        self.nodes = {
            name: Node(
                name,
                base._replace(self_id=name),
                self.facts,
                self.rng.choice((1.0, 1.0, 0.9, 1.1)),
                CheckedLog(self.facts),
                HardState(),
            )
            for name in self.names
        }
        if seed % 8 in (1, 3):  # three members, in peace and not; all other seeds are as before
            draw = random.Random(seed)
            for node in self.nodes.values():
                node.log.old_log = draw.choice(OLD_LOGS)
        for node in self.nodes.values():
            self.start(node)

    # --- a node's shell

    def clock(self, node: Node) -> int:
        return int(self.now * node.rate)

    def start(self, node: Node) -> None:
        node.life += 1
        node.leads_term = -1
        node.log.committed = min(node.kept_committed, node.log.end_index)
        node.member = Member(
            node.settings,
            node.hard,
            node.log,
            self.rng.randint,
            self.clock(node),
            committed=node.log.committed,
            votes=node.votes,
            deposed=node.deposed,
        )
        self.turn(node)

    def stop(self, node: Node) -> None:
        node.member = None
        node.leads_term = -1
        node.held.clear()
        node.paused = False
        if self.rng.random() < 0.5:
            node.kept_committed = max(node.kept_committed, node.log.committed)
        node.kept_committed = min(node.kept_committed, node.log.end_index)

    def turn(self, node: Node) -> None:
        member = node.member
        assert member is not None
        ready = member.take(self.clock(node))
        if member.committed_index != node.log.committed:
            self.facts.commits(
                node.log, node.log.committed, member.committed_index, member.term, node.name
            )
            node.log.committed = member.committed_index
            if member.role is Role.LEADER and self._malicious(0.3):
                self.doomed = node
        if member.role is Role.LEADER:
            self.facts.leads(member.term, node.name, node.life, node.log)
        node.held.append(ready)
        if len(node.held) == 1 and (
            ready.hard_state is None or self.rng.random() >= self.odds.hold_sync
        ):
            self.release(node)

    def _malicious(self, share: float = 1.0) -> bool:
        return self.rng.random() < self.odds.malice * share

    def release(self, node: Node) -> None:
        """The disk has synced: what waited goes out, up to the next hard state."""
        first = True
        while node.held and (first or node.held[0].hard_state is None):
            first = False
            self._do(node, node.held.pop(0))

    def _do(self, node: Node, ready: Ready) -> None:
        member = node.member
        assert member is not None
        if ready.hard_state is not None:
            node.hard = ready.hard_state
        if ready.votes is not None:
            node.votes = ready.votes
        for token, answer in ready.answers:
            self.network.append(Message(token, False, answer))
            if isinstance(answer, VoteResponse) and answer.vote_result is VoteResult.ACCEPT:
                self.doomed = self.doomed or (node if self._malicious() else None)
        for out in ready.requests:
            self._send(node, out)
        role = ready.role
        still = role is not None and (member.role, member.term) == (Role.LEADER, role.term)
        if still and role is not None and role.role is Role.LEADER:
            node.leads_term = role.term
            if self._malicious(0.5):
                self.cut |= {(node.name, other) for other in self.names}
                self.put_at(node, b"alone")
        if ready.append_noop and node.leads_term == member.term:
            self.put_at(node, b"noop")

    def _send(self, node: Node, out: Outgoing) -> None:
        call = Call(node, node.life, out.peer, out.request)
        self.network.append(Message(call, True, None))
        self.calls.append((self.now + CALL_MS, call))

    def put_at(self, node: Node, body: bytes) -> None:
        member = node.member
        assert member is not None
        node.log.put(node.leads_term, body)
        member.appended(self.clock(node))
        self.turn(node)

    # --- what happens

    def step(self) -> None:
        rng, odds = self.rng, self.odds
        if self.doomed is not None:
            node, self.doomed = self.doomed, None
            if node.member is not None:
                self.crash(node)
        if self.cut and rng.random() < 0.02:
            self.cut.clear()
        if self.kept and rng.random() < 0.02:
            self.network.append(self.kept.pop(rng.randrange(len(self.kept))))
        what = rng.random()
        if what < odds.fault:
            self.fault()
            return
        what -= odds.fault
        if what < odds.cut:
            self.cut_links()
        elif what < odds.cut + odds.stand:
            self.stand()
        if rng.random() < odds.put:
            self.put()
        held = [node for node in self.nodes.values() if node.held]
        if held and rng.random() < 0.3:
            self.release(rng.choice(held))
        waiting = len(self.network)
        if waiting and (waiting > 4 * len(self.names) or rng.random() >= odds.time):
            self.deliver()
        else:
            self.pass_time()

    def put(self) -> None:
        """A client at a leader, if there is one."""
        leaders = [node for node in self.nodes.values() if node.leads_term >= 0]
        if leaders:
            node = self.rng.choice(leaders)
            member = node.member
            assert member is not None
            if not node.paused and member.transferee is None:
                self.puts += 1
                self.put_at(node, b"%d" % self.puts)

    def deliver(self) -> None:
        rng, odds = self.rng, self.odds
        at = 0 if rng.random() < odds.in_order else rng.randrange(len(self.network))
        message = self.network[at]
        call = message.call
        to = self.nodes[call.peer] if message.is_request else call.node
        if to.paused:
            if rng.random() < 0.1:
                self.pass_time()
            return
        if not rng.random() < odds.double:
            del self.network[at]
        kind = call.request.type if isinstance(call.request, PushRequest) else None
        if message.is_request and kind is PushType.TRUNCATE and self._malicious():
            self.kept.append(message)
        link = (call.node.name, call.peer) if message.is_request else (call.peer, call.node.name)
        lost = rng.random() < odds.lose or link in self.cut
        self.hand_over(message, to, lost=lost)

    def hand_over(self, message: Message, to: Node, *, lost: bool) -> None:
        call = message.call
        if message.is_request:
            if to.member is None or lost:
                self.network.append(Message(call, False, None))
            else:
                to.member.receive(self.clock(to), call.request, call)
                self.turn(to)
        elif lost and message.answer is not None:
            self.network.append(Message(call, False, None))
        elif to.member is not None and to.life == call.life and not call.done:
            call.done = True
            to.member.answered(self.clock(to), call.peer, call.request, message.answer)
            self.turn(to)

    def pass_time(self) -> None:
        """To the next deadline, or not so far."""
        awake = [n for n in self.nodes.values() if n.member is not None and not n.paused]
        nearest = min(
            (n.member.next_deadline_ms / n.rate for n in awake if n.member is not None),
            default=self.now + 1000,
        )
        self.now = max(self.now + 1, min(int(nearest) + 1, self.now + self.rng.randint(1, 400)))
        while self.calls and self.calls[0][0] <= self.now:
            call = self.calls.popleft()[1]
            if not call.done:
                self.hand_over(Message(call, False, None), call.node, lost=False)
        for node in awake:
            member = node.member
            if member is not None and member.next_deadline_ms <= self.clock(node):
                member.tick(self.clock(node))
                self.turn(node)

    # --- faults

    def cut_links(self) -> None:
        """Some links, in one direction or both; or all are whole again."""
        rng = self.rng
        self.cut.clear()
        if rng.random() < 0.4:
            return
        if rng.random() < 0.5:
            alone = rng.choice(self.names)
            pairs = [(alone, other) for other in self.names]
        else:
            pairs = [(a, b) for a in self.names for b in self.names if rng.random() < 0.3]
        for a, b in pairs:
            self.cut.add((a, b))
            if rng.random() < 0.7:
                self.cut.add((b, a))

    def fault(self) -> None:
        """To one node; one that is down or stopped comes back."""
        rng = self.rng
        node = rng.choice(list(self.nodes.values()))
        if node.member is None:
            self.start(node)
        elif node.paused:
            node.paused = False
        elif (kind := rng.random()) < 0.15:
            node.paused = True
        elif kind < 0.25:
            node.log.synced = node.log.end_index
        elif kind < 0.35:
            self._transfer(node)
        elif kind < 0.4:
            gone = rng.randint(0, max(0, node.log.committed - max(0, node.log.begin_index)))
            del node.log.stored[: min(gone, len(node.log.stored) - 1)]
        elif kind < 0.5:
            node.log.space = rng.randint(0, 3) if node.log.space is None else None
        else:
            self.crash(node)

    def crash(self, node: Node) -> None:
        """It is killed; perhaps its log loses something. Most are back at once."""
        rng = self.rng
        self.stop(node)
        kind = rng.random()
        if kind > 0.7 and self._may_lose(node):
            keep = -1 if kind > 0.85 else rng.randint(node.log.synced, node.log.end_index)
            self.lose(node, keep)
        if rng.random() < self.odds.back:
            self.start(node)

    def stand(self, node: Node | None = None) -> None:
        """Without waiting, and without asking: nothing promised depends on either."""
        node = node or self.rng.choice(list(self.nodes.values()))
        member = node.member
        if member is None or node.paused or member.role is Role.LEADER:
            return
        state, now = member._state, self.clock(node)
        if member._catch_up.may_vote_for(state.log_end):
            state.become_candidate(now)
            member._candidacy.take_over(now)
            self.turn(node)
            if self._malicious():
                self.stand()

    def _transfer(self, node: Node) -> None:
        if node.member is not None:
            call = Call(node, -1, node.name, DledgerBody())
            node.member.transfer(self.clock(node), self.rng.choice([None, *self.names]), call)
            self.turn(node)

    def _may_lose(self, node: Node) -> bool:
        without = {n.name for n in self.nodes.values() if not n.votes} | {node.name}
        return len(without) <= (len(self.names) - 1) // 2

    def lose(self, node: Node, keep: int) -> None:
        """The end of its log, or all of it; its marker says so at the next start."""
        node.log.committed = -1
        node.log.truncate(keep)
        node.kept_committed = min(node.kept_committed, node.log.end_index)
        node.votes = False

    # --- the end

    def heal(self) -> None:
        """No trouble any more: a leader must come, and all logs must become what it has."""
        self.odds = self.odds._replace(
            lose=0, double=0, in_order=1, hold_sync=0, fault=0, cut=0, stand=0, malice=0
        )
        self.cut.clear()
        for node in self.nodes.values():
            node.paused = False
            node.log.space = None
            if node.member is None:
                self.start(node)
            while node.held:
                self.release(node)
        until = self.now + 60_000
        wrote = False
        while self.now < until:
            for _ in range(len(self.network)):
                self.deliver()
            if self._agreed():
                if wrote:
                    return
                wrote = True
                self.put()
            if not self.network:
                self.pass_time()
        states = [
            (
                n.name,
                n.member and (n.member.role, n.member.term, n.member.votes),
                n.log.committed,
                n.log.end_index,
            )
            for n in self.nodes.values()
        ]
        raise Violation(f"liveness: after 60 s without trouble {states}")

    def _agreed(self) -> bool:
        nodes = list(self.nodes.values())
        leaders = [n for n in nodes if n.member is not None and n.member.role is Role.LEADER]
        if len(leaders) != 1:
            return False
        leader = leaders[0].log
        return leader.end_index < 0 or all(
            n.member is not None
            and n.member.role is not Role.CANDIDATE
            and n.member.votes
            and n.log.end_index == leader.end_index == n.log.committed
            for n in nodes
        )
