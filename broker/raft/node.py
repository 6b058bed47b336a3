"""A member of a group as a service: sockets, threads and the clock around ``store.raft.Member``,
which decides.

All that comes in during one turn of the event loop (requests of peers, their answers, entries that
the store has appended) is told to the member together, at the end of the turn, and what it wants
done is done then. So a hundred messages that were stored in a turn are one push, encoded once for
all peers, and one write per peer; those of a few turns are, where many senders wait (``rounds``).

A new term or vote is on the disk, synced by a thread, before anything leaves that depends on it;
nothing of the member's is done meanwhile. A disk that refuses that leaves it silent: the others
elect another leader.

One file: all of it happens in one turn, on the same few fields.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from ...remoting.clock import Clock, Timer
from ...remoting.dispatch import PENDING, Body, Context, Outcome, Reply, reply_together
from ...remoting.outages import Outages, without_figures
from ...remoting.protocol.bodies.codec import BodyError
from ...remoting.protocol.bodies.dledger import (
    REQUEST_CODES,
    RESPONSE_BODIES,
    DledgerBody,
    DledgerCode,
    Entry,
    GetRequest,
    GetResponse,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    PushRequest,
    PushResponse,
    TransferResponse,
    decode_dledger,
    encode_dledger,
)
from ...remoting.protocol.bodies.stored_entries import decode_push
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.wire import NoFields
from ...remoting.services import to_the_end
from ...remoting.transport.buffers import Buffers
from ...store.model.errors import StoreError
from ...store.model.status import PutResult, PutStatus
from ...store.raft.entry_log import EntryLog
from ...store.raft.member import NEVER_MS, Member
from ...store.raft.old_log import differ
from ...store.raft.ready import Answer, HardState, Ready, Role, RoleChange
from ...store.raft.settings import RaftSettings
from .door import OK
from .mending import ExpiredEverywhereError
from .network import MemberNetwork
from .old_logs import tell_old_logs
from .parts import MemberStore, NodeSettings
from .rounds import LONGEST_S, PushRounds
from .waiting import CommitWaiters, Together

log: Final = logging.getLogger(__name__)

_SILENT: Final = "member is silent: its term and vote cannot be written"
_NO_TERM: Final = "leader cannot begin its term"
_NOT_TAKEN: Final = "what the leader sends is not stored, this member falls behind reason=%s"
SAVE_AGAIN_S: Final = 1.0
BEGIN_AGAIN_MS: Final = 1000
"""Who leads nobody but itself has no other deadline that would have it try once more."""
HAND_OVER_S: Final = 1.5
"""How long a leader that stops tries to have another one lead first."""
ASK_AGAIN_S: Final = 0.02
"""While leadership goes to somebody already; it may come to nothing."""
HAND_OVER_AGAIN_S: Final = 5.0
MAX_HAND_OVER_PAUSE_S: Final = 320.0
"""Where all members lack space leadership must not go round: the pause doubles up to this."""
MAX_HELD: Final = 1000
MAX_HELD_BYTES: Final = 32 << 20
"""Requests that wait while a term or vote is written; more are not taken."""


HANDING_OVER: Final = PutResult(
    PutStatus.OS_PAGECACHE_BUSY,
    remark="[PC_SYNCHRONIZED]broker busy: leadership goes to another member",
)
TOO_MANY: Final = PutResult(
    PutStatus.OS_PAGECACHE_BUSY,
    remark="[PC_SYNCHRONIZED]broker busy: too many messages wait for a majority "
    "(maxPendingRequestsNum)",
)


class RaftNode:
    """Service. ``listen`` binds the port; ``run`` until cancelled, when a leader first has another
    one lead. Ends with ``CommittedConflict`` when the logs of a group contradict each other."""

    def __init__(
        self,
        raft: RaftSettings,
        settings: NodeSettings,
        store: MemberStore,
        clock: Clock,
        append_noop: Callable[[], object],
    ) -> None:
        """``append_noop`` puts one small record into the store, so that what is there can be
        committed; raises StoreError where that fails, and is called again then."""
        self.settings: RaftSettings = raft
        self.on_role: list[Callable[[RoleChange], None]] = []
        """Told after the store, in the same turn; of lost leadership before the new term is on the
        disk."""
        self.on_tables_changed: list[Callable[[], None]] = []
        """Told when the leader's topics or groups have changed, as it says: a hint, whoever it
        comes from."""
        self.on_not_registered: list[Callable[[], None]] = []
        """Told when somebody says that a name server takes another one for the master."""
        self._tables_changed = False
        self.elections: int = 0
        """How often this member stood."""
        self._store: Final = store
        self._append_noop: Final = append_noop
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._member: Final = Member(
            raft,
            store.hard_state,
            store.log,
            random.randint,
            self._now_ms(),
            committed=store.committed_index,
            votes=store.votes,
        )
        self._takes_puts: Final = settings.takes_puts
        self._member.may_lead = settings.takes_puts
        self._hand_over_at, self._hand_over_pause_s = 0.0, HAND_OVER_AGAIN_S
        self._broker_address: Final = settings.broker_address
        self._waiters: Final = CommitWaiters(settings.wait_ack_ms)
        self._readable_end = 0  # of a leader: where what can be read ends
        self._most_waiting: Final = settings.most_waiting
        self._refusing: PutResult | None = None
        """What puts are answered though this member leads."""
        self._network: Final = MemberNetwork(raft, settings, clock, self._request, self._answered)
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._held_bytes = 0
        self._rounds = PushRounds(len(self.settings.others))
        self._round_ends: asyncio.TimerHandle | None = None
        self._held = False
        """Entries were appended that the member has not been told of."""
        self._saving = self._leading = self._appended = self._noop_due = self._lead_due = False
        self._due = False
        """The member is to be told of something at the end of this turn."""
        self._sleeping: asyncio.Future[None] | None = None
        self._alarm: Timer | None = None
        self._alarm_ms = NEVER_MS
        """When it goes off."""
        store.on_appended = self._entries_appended
        store.on_readable.append(self.more_is_readable)

    # -- what it is

    @property
    def port(self) -> int:
        return self._network.server.port

    @property
    def role(self) -> Role:
        return self._member.role

    @property
    def leader_id(self) -> str | None:
        """None: nobody leads as far as it knows."""
        return self._member.leader_id

    @property
    def term(self) -> int:
        return self._member.term

    @property
    def committed_index(self) -> int:
        return self._member.committed_index

    @property
    def takes_messages(self) -> bool:
        """It leads, and has begun its term."""
        return self._leading and not self._lead_due

    @property
    def votes(self) -> bool:
        """It has all that it ever acknowledged."""
        return self._member.votes

    @property
    def log(self) -> EntryLog:
        return self._store.log

    @property
    def has_other_old_log(self) -> bool:
        """Of a follower: what it has from before the group is not what its leader has."""
        return differ(self._store.log.old_log, self._member.leader_old_log)

    @property
    def waiting(self) -> int:
        """How many messages wait until they are committed."""
        return len(self._waiters)

    def oldest_wait_s(self) -> float:
        """How long the oldest of them has waited."""
        return self._waiters.oldest_wait_ms(self._now_ms()) / 1000

    def lags(self) -> dict[str, int]:
        """Of a leader: how many entries each other member's log is behind, as far as it knows."""
        if not self._leading:
            return {}
        end = self._store.log.end_index
        return {peer: end - self._member.match_index(peer) for peer in self.settings.others}

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    # -- what senders wait for

    def when_acked(self, phy_offset: int, done: Callable[[PutStatus], None]) -> None:
        """Call ``done`` with PUT_OK once the entry that ends at ``phy_offset`` is committed and can
        be read here; with SERVICE_NOT_AVAILABLE when this member does not lead any more, with
        OS_PAGECACHE_BUSY when it takes too long: in both cases it may be committed later."""
        self.when_committed(phy_offset, _tell_each, done)

    def when_committed(self, phy_offset: int, tell: Together, who: object) -> None:
        """As ``when_acked`` for many, perhaps: ``tell`` is called once with all who wait with it,
        one behind the other, and have the same end."""
        if self._leading and phy_offset > self._readable_end:
            self._waiters.add((phy_offset, tell, who))
        elif phy_offset <= self._store.committed_end:
            tell([who], PutStatus.PUT_OK)
        else:
            tell([who], PutStatus.SERVICE_NOT_AVAILABLE)

    async def transfer(self, to: str | None = None) -> TransferResponse:
        """Have another one lead; ``None``: whoever is furthest. Returns when it does, or with the
        code that says why not."""
        answer: asyncio.Future[TransferResponse] = asyncio.get_running_loop().create_future()
        self._tell(self._member.transfer, to, answer)
        return await answer

    async def hand_over_damaged(self) -> None:
        """A leader whose own entries are damaged, and whose followers do not tell theirs (those of
        the original), gets them from another one that leads. They lead in turn: the next one may
        have the same damage."""
        if not self._leading:
            return
        self._outages.occurs(
            log,
            ("damaged",),
            "entries of this leader are damaged: another member is asked to lead",
        )
        for member in self.settings.others:
            if await self._hand_over(member):
                return

    async def leader_broker(self) -> str | None:
        """Where the leader's broker takes requests, as it says itself; empty when it does not say
        (a member of the original). None: nobody leads, or it has not answered."""
        leader = self.leader_id
        found = await self._metadata_of(leader or "")
        if found is None or found.leader_id != leader:
            return None
        return found.broker_addr or ""

    async def broker_of(self, peer: str) -> str | None:
        """Where another member's broker takes requests; None: it does not say."""
        found = await self._metadata_of(peer)
        return None if found is None else found.broker_addr or None

    async def _metadata_of(self, peer: str) -> MetadataResponse | None:
        request = MetadataRequest(
            group=self.settings.group, remote_id=peer, local_id=self.settings.self_id
        )
        body = await self._network.ask(peer, request)
        try:
            found = None if body is None else decode_dledger(MetadataResponse, body)
            if found is not None:
                self._network.lists.told(peer, found.peers)
            return found
        except BodyError as error:
            self._not_understood(peer, error)
            return None

    async def entries_of_others(self, index: int) -> AsyncIterator[Entry]:
        """A committed entry as other members have it, the leader first. Followers of the original
        do not answer. Raises ExpiredEverywhereError."""
        expired = 0
        for peer in sorted(self.settings.others, key=lambda each: each != self.leader_id):
            request = GetRequest(
                group=self.settings.group,
                remote_id=peer,
                local_id=self.settings.self_id,
                begin_index=index,
                committed=True,
            )
            body = await self._network.ask(peer, request)
            try:
                found = None if body is None else decode_dledger(GetResponse, body)
            except BodyError as error:
                self._not_understood(peer, error)
                continue
            if found is not None and found.entries:
                yield found.entries[0]
            expired += found is not None and found.code == DledgerCode.INDEX_LESS_THAN_LOCAL_BEGIN
        if expired == len(self.settings.others):  # of a group of one there are none
            raise ExpiredEverywhereError(f"no other member has the entry {index} any more")

    def entry_mended(self) -> None:
        """What was read of the log before is not to be sent any more."""
        self._tell(self._member.entry_mended)

    def tell_tables_changed(self) -> None:
        """Of a leader: followers take the broker's topics and groups over soon. Once for all
        changes of a turn."""
        if not self._tables_changed:
            self._tables_changed = True
            asyncio.get_running_loop().call_soon(self._tell_tables_changed)

    def _tell_tables_changed(self) -> None:
        self._tables_changed = False
        if not self._leading:
            return
        for peer in self.settings.others:
            request = MetadataRequest(
                group=self.settings.group,
                remote_id=peer,
                local_id=self.settings.self_id,
                tables_changed=True,
            )
            self._network.tell(peer, request)

    def tell_not_registered(self) -> None:
        """Of a follower: a name server takes somebody else for the master than the leader, which
        has to register."""
        if (leader := self.leader_id) in self.settings.others:
            request = MetadataRequest(
                group=self.settings.group,
                remote_id=leader,
                local_id=self.settings.self_id,
                not_registered=True,
            )
            self._network.tell(leader, request)

    # -- life

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self._network.listen()

    def share(self, buffers: Buffers) -> None:
        """What its connections hold counts with that of the broker's other ports."""
        self._network.share(buffers)

    def close(self) -> None:
        """Stop listening; ``run`` does it at its end, this is for a node that never ran."""
        self._network.server.close()

    async def run(self) -> None:
        """See the class."""
        try:
            async with self._network.open() as group:
                member = group.create_task(self._serve_member(), name="raft-member")
                try:
                    await asyncio.wait([member])
                finally:
                    if not member.done():
                        await to_the_end(self._hand_over())
        finally:
            self._stop_leading()
            self._waiters.fail(PutStatus.SERVICE_NOT_AVAILABLE)
            for timer in (self._round_ends, self._alarm):
                if timer is not None:
                    timer.cancel()
            self.close()

    async def _hand_over(self, to: str | None = None) -> bool:
        """A leader has another one lead, if there is one (``transfer``). Whether it ceased to."""
        if not self._leading or not self.settings.others:
            return False
        try:
            async with asyncio.timeout(HAND_OVER_S):
                while (code := (await self.transfer(to)).code) == DledgerCode.LEADER_TRANSFERRING:
                    await self._clock.sleep(ASK_AGAIN_S)
        except TimeoutError:
            log.warning("leadership not handed over reason=nobody took it in time")
            return False
        if code not in (DledgerCode.SUCCESS, DledgerCode.NOT_LEADER):
            log.warning("leadership not handed over to=%s code=%d", to or "any", code)
            return False
        log.info("leadership handed over")
        return True

    # -- what comes in

    def _tell(self, what: Callable[..., None], *args: Any) -> None:
        """Have the member told at the end of the turn."""
        self._inbox.append((what, args))
        if not self._due:
            self._wake()

    def _wake(self) -> None:
        self._due = True
        if (sleeping := self._sleeping) is not None and not sleeping.done():
            sleeping.set_result(None)

    def _entries_appended(self) -> None:
        self._appended = True
        if not self._due:
            self._wake()

    def _request(
        self, kind: type[DledgerBody], _request: NoFields, body: Body, ctx: Context
    ) -> Outcome:
        if self._saving:
            self._held_bytes += len(body)
            if self._held_bytes > MAX_HELD_BYTES or len(self._inbox) >= MAX_HELD:
                return Reply(ResponseCode.SYSTEM_BUSY, remark="this member waits for its disk")
        try:
            request = decode_push(body) if kind is PushRequest else decode_dledger(kind, body)
        except BodyError as error:  # without a body, as the original
            return Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if isinstance(request, MetadataRequest) and self._network.is_member(ctx.connection):
            self._take_hint(request)
        self._network.lists.asked(request)
        self._tell(self._member.receive, request, ctx)
        return PENDING

    def _answered(self, peer: str, request: DledgerBody, body: bytes | None) -> None:
        answer = None
        if body is not None:
            try:
                answer = decode_dledger(RESPONSE_BODIES[REQUEST_CODES[type(request)]], body)
            except BodyError as error:
                self._not_understood(peer, error)
        if isinstance(answer, HeartbeatResponse) and answer.takes_bytes:
            self._network.takes_bytes(peer)
        elif isinstance(answer, MetadataResponse):
            self._network.lists.told(peer, answer.peers)
        if self._due or not self._was_expected(peer, answer):
            self._tell(self._member.answered, peer, request, answer)
        else:
            self._inbox.append((partial(self._heard, self._now_ms()), (peer, request, answer)))

    def _heard(
        self, when_ms: int, _now_ms: int, peer: str, request: DledgerBody, answer: DledgerBody
    ) -> None:
        """What was expected, a while ago: nobody was woken for it."""
        self._member.answered(when_ms, peer, request, answer)

    def _was_expected(self, peer: str, answer: DledgerBody | None) -> bool:
        """A follower has all that there is, and all of it is committed: nothing comes of that
        before more is stored, or the next heartbeat."""
        if (
            not isinstance(answer, PushResponse | HeartbeatResponse)
            or answer.code != DledgerCode.SUCCESS
            or self._member.transferee is not None
        ):
            return False
        end = self._store.log.end_index
        if isinstance(answer, HeartbeatResponse):
            return self._member.is_level(peer) and self._member.committed_index >= end
        return self._member.committed_index >= answer.end_index >= end

    def _take_hint(self, request: MetadataRequest) -> None:
        if request.tables_changed and request.local_id == self.leader_id:
            for each in self.on_tables_changed:
                each()
        if request.not_registered and self._leading:
            for each in self.on_not_registered:
                each()

    # -- the member's turns

    async def _serve_member(self) -> None:
        """Raises ``CommittedConflict``."""
        self._set_alarm()
        while True:
            if not self._due:  # an Event takes ten times as long, and this is every turn
                self._sleeping = asyncio.get_running_loop().create_future()
                await self._sleeping
            self._due = False
            now_ms = self._now_ms()
            self._look_at_log(now_ms)
            if self._held and not self._inbox:
                continue
            self._waiters.begin(now_ms)
            self._tell_member(now_ms)
            ready = self._member.take(now_ms)
            if ready.hard_state is not None or ready.votes is not None:
                await self._save(ready.hard_state, ready.votes)
            self._carry_out(ready, now_ms)
            if self._next_ms < self._alarm_ms:
                self._set_alarm()

    def _look_at_log(self, now_ms: int) -> None:
        if self._appended:
            self._appended, self._held = False, True
            self._store.take_appended()
        if self._held and not (self._leading and self._holds()):
            self._held = False
            if self._leading:
                log = self._store.log
                self._rounds.pushed(log.end_index, log.position_for(0))
                self._member.appended(now_ms)

    def _holds(self) -> bool:
        """What is new is not pushed yet."""
        log = self._store.log
        return self._rounds.holds(
            len(self._waiters), log.end_index, log.position_for(0), self._member.committed_index
        )

    def _tell_member(self, now_ms: int) -> None:
        inbox, self._inbox = self._inbox, []
        for what, args in inbox:
            what(now_ms, *args)
            if self._leading and self._member.role is not Role.LEADER:
                self._stop_leading()  # before anybody else's entries come

    def _stop_leading(self) -> None:
        if self._leading:
            self._leading = self._noop_due = self._lead_due = False
            self._refusing = None
            self._store.follow()
            self._waiters.fail(PutStatus.SERVICE_NOT_AVAILABLE)
            for each in self.on_role:
                each(RoleChange(Role.CANDIDATE, self.term, None))

    def _give_up_leading(self) -> None:
        """A leader whose disk is full, or fails, so that it cannot store messages or their queues,
        or begin its term, leaves its place to another one; where that fails it tries again
        later."""
        now = self._clock.monotonic()
        if not self._leading or self._member.transferee is not None:
            return
        if self._takes_puts():
            self._hand_over_pause_s = HAND_OVER_AGAIN_S
            return
        if now < self._hand_over_at:
            return
        self._hand_over_at = now + HAND_OVER_AGAIN_S
        self._outages.occurs(
            log,
            ("offered",),
            "leadership is offered to others reason=this broker cannot store messages",
        )
        answer: asyncio.Future[TransferResponse] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(self._gave_up_leading)
        self._tell(self._member.transfer, None, answer)

    def _gave_up_leading(self, answer: asyncio.Future[TransferResponse]) -> None:
        """Should it come back, for others have no space either, it stays here longer each time."""
        if not answer.cancelled() and answer.result().code == DledgerCode.SUCCESS:
            self._hand_over_at = self._clock.monotonic() + self._hand_over_pause_s
            self._hand_over_pause_s = min(2 * self._hand_over_pause_s, MAX_HAND_OVER_PAUSE_S)

    async def _save(self, hard_state: HardState | None, votes: bool | None) -> None:
        """Returns when it is on the disk."""
        if hard_state is not None and hard_state.vote == self.settings.self_id:
            self.elections += 1
        self._saving = True
        while self._saving:
            try:
                await to_the_end(self._store.save(hard_state, votes))
            except StoreError as error:
                self._complain(_SILENT, error)
                await self._clock.sleep(SAVE_AGAIN_S)
            else:
                self._saving, self._held_bytes = False, 0
                self._outages.all_work(_SILENT)

    def _carry_out(self, ready: Ready, now_ms: int) -> None:
        if ready.answers:
            self._answer(ready.answers)
        if ready.requests:
            self._network.send(ready.requests)
        if ready.role is not None:
            self._take_role(ready.role)
        if ready.committed is not None:
            self._commit()
        self._noop_due |= ready.append_noop
        if self._lead_due or self._noop_due:
            self._begin_term()
        if (trouble := self._member.trouble) is None:
            self._outages.works((_NOT_TAKEN,))
        else:
            self._outages.fails(log, (_NOT_TAKEN,), _NOT_TAKEN, trouble, level=logging.ERROR)
        self._waiters.expire(now_ms, PutStatus.OS_PAGECACHE_BUSY)
        if self.takes_messages:
            self._regulate()

    def _regulate(self) -> None:
        """Puts are refused while leadership goes to another one, and while too many wait."""
        refusing = None
        if self._member.transferee is not None:
            refusing = HANDING_OVER
        elif len(self._waiters) >= self._most_waiting:
            refusing = TOO_MANY
        if refusing is not self._refusing:
            self._refusing = refusing
            self._store.refuse(refusing)

    def _answer(self, answers: list[Answer]) -> None:
        replies: list[tuple[Context, Reply | bytes]] = []
        for token, body in answers:
            if isinstance(token, Context):
                if isinstance(body, MetadataResponse):
                    body = replace(body, broker_addr=self._broker_address())
                elif isinstance(body, HeartbeatResponse):
                    body = replace(body, takes_bytes=True)
                replies.append((token, Reply(OK, body=encode_dledger(body))))
            elif not token.done():
                token.set_result(body)
        reply_together(replies)

    def _take_role(self, change: RoleChange) -> None:
        self._stop_leading()
        if change.role is Role.LEADER:
            self._leading = self._lead_due = True
            self._rounds = PushRounds(len(self.settings.others))
            self._readable_end = self._store.readable_end
        elif change.role is Role.FOLLOWER:
            self._store.follow()
            tell_old_logs(self._store.log, change.leader_id or "", self._member.leader_old_log)
        for each in self.on_role:
            each(change)

    def _commit(self) -> None:
        self._store.commit(self._member.committed_index)
        self.more_is_readable()

    def more_is_readable(self) -> None:
        """The store has more in its queues: senders hear of what is there."""
        if self._leading:
            self._readable_end = self._store.readable_end
            everybody = len(self._waiters)
            self._waiters.committed(self._readable_end)
            told = everybody - len(self._waiters)
            if told and self._rounds.committed(told, everybody):
                if self._round_ends is not None:
                    self._round_ends.cancel()
                loop = asyncio.get_running_loop()
                self._round_ends = loop.call_later(LONGEST_S, self._round_over)
            if (self._held or self._refusing is TOO_MANY) and not self._due:
                self._wake()

    def _round_over(self) -> None:
        self._rounds.over(len(self._waiters))
        if self._held and not self._due:
            self._wake()

    def _begin_term(self) -> None:
        """What fails is tried again in the next turn, a second later at the latest."""
        try:
            if self._lead_due:
                self._store.lead(self._member.term)
                self._lead_due = False
            if self._noop_due:
                self._append_noop()
                self._noop_due = False
            self._outages.all_work(_NO_TERM)
        except StoreError as error:
            self._complain(_NO_TERM, error)

    def _complain(self, what: str, error: StoreError) -> None:
        cause = what, without_figures(str(error))
        self._outages.fails(log, cause, "%s reason=%s", what, error, level=logging.ERROR)

    def _not_understood(self, peer: str, error: BodyError) -> None:
        self._outages.occurs(
            log, ("answer", peer), "answer not understood peer=%s error=%s", peer, error
        )

    # -- time

    def _set_alarm(self) -> None:
        """The member is told when its next deadline has come; nothing is looked at before. A later
        one does not move the alarm: it goes off too early once, instead of being set each turn."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = self._next_ms
        self._alarm = self._clock.call_later(
            max(0, self._alarm_ms - self._now_ms()) / 1000, partial(self._tell, self._time_has_come)
        )

    @property
    def _next_ms(self) -> int:
        """When the member wants to be told, or a sender that it takes too long."""
        member, sender = self._member.next_deadline_ms, self._waiters.deadline_ms
        if self._lead_due or self._noop_due:
            member = min(member, self._now_ms() + BEGIN_AGAIN_MS)
        return member if sender is None or member < sender else sender

    def _time_has_come(self, now_ms: int) -> None:
        self._alarm_ms = NEVER_MS  # whatever the member wants next is sooner
        self._give_up_leading()
        self._member.tick(now_ms)


def _tell_each(waiting: list[Callable[[PutStatus], None]], status: PutStatus) -> None:
    for done in waiting:
        done(status)
