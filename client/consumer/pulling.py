"""Pulling messages out of one queue, for as long as it is ours (client.md §4.5; class
PullAPIWrapper).

One file, though over 400 lines: what an answer says, and what follows from it, is read together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ...remoting.errors import BrokerError, ConnectError, ConnectionLostError, RemotingError
from ...remoting.outages import Cause
from ...remoting.protocol.bodies.heartbeat import SubscriptionData
from ...remoting.protocol.bodies.route import MASTER_ID
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import PullMessageRequest, PullMessageResponse, PullSysFlag
from ...remoting.protocol.message.dispatched import dispatched_numbers
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.salvage import DamagedRecord, read_salvaged
from ...remoting.responses import Response
from .consume_hooks import FilterHook, filtered
from .consume_stats import TopicStats
from .group_member import GroupMember
from .tag_filter import TagFilter

log: Final = logging.getLogger(__name__)

ERROR_DELAY = 1.0
FLOW_CONTROL_DELAY = 0.02
MAX_IDLE_S = 120.0
_GRACE = 15.0
"""The broker holds a pull a little longer than it was asked to: that is no timeout yet."""


class PullStatus(Enum):
    """How a pull went."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    """The end of the queue."""
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    """Messages were looked at, none matches the subscription; there may be more. Also from a slave
    that does not have the offset yet: then it is where to go on."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """The offset asked for is not in the queue (any more)."""


_UNKNOWN_SUBSCRIPTION = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
)
"""What a heartbeat may mend."""
_STATUS_BY_CODE = {int(status.value): status for status in PullStatus}


_LEFT_OUT: Final = DamagedRecord(0, 0, "the broker found it damaged and left it out")


class Pulled(NamedTuple):
    """What one pull brought."""

    status: PullStatus
    messages: list[MessageExt]
    next_offset: int
    """Where to go on, whatever the status."""
    min_offset: int
    """The queue's first and its next offset, as the broker saw them."""
    max_offset: int
    suggested_broker_id: int
    """Which replica to ask the next time."""
    damaged: tuple[DamagedRecord, ...] = ()
    """What came of messages that are not handed out: their bytes are not what was sent."""


def read_pulled(answer: Response, address: str, queue: MessageQueue) -> Pulled:
    """The answer to a pull of that queue. Raises ``BrokerError``, ``ProtocolError``."""
    status = _STATUS_BY_CODE.get(answer.code)
    if status is None:
        raise answer.error(address)
    header: PullMessageResponse = answer.header
    messages: list[MessageExt] = []
    damaged: list[DamagedRecord] = []
    if status is PullStatus.FOUND:
        messages, damaged = read_salvaged(answer.body, queue.broker_name)
        _number(messages, queue.topic)
    damaged += [_LEFT_OUT] * (header.damaged_msg_nums or 0)
    return Pulled(
        status,
        messages,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        tuple(damaged),
    )


def _number(messages: list[MessageExt], topic: str) -> None:
    """What lies in queues of several topics tells its number in that of its own: here the one that
    was pulled counts."""
    for message in messages:
        if message.topic != topic:
            numbers = dict(dispatched_numbers(message.raw_properties))
            message.queue_offset = numbers.get(topic, message.queue_offset)


def together(pulled: Pulled, other: Pulled, asked_offset: int) -> Pulled:
    """What two replicas have of the same messages, the first of them at ``asked_offset``; one lies
    at the same place of both logs.
    """
    if other.status is not PullStatus.FOUND or other.next_offset <= asked_offset:
        return pulled
    if not other.damaged or other.next_offset != pulled.next_offset:
        return other
    found = {each.commit_log_offset: each for each in (*pulled.messages, *other.messages)}
    named = {
        each.message.commit_log_offset: each for each in pulled.damaged if each.message is not None
    }
    unnamed = [each for each in pulled.damaged if each.message is None]
    known = {each.commit_log_offset for each in pulled.messages} | named.keys()
    filled = [each.store_size for at, each in found.items() if at not in known]
    if sum(filled) == sum(each.size for each in unnamed) or (
        _LEFT_OUT in unnamed and len(filled) >= len(unnamed)
    ):
        unnamed = []
    damaged = (*(each for at, each in named.items() if at not in found), *unnamed)
    return other._replace(messages=[found[at] for at in sorted(found)], damaged=damaged)


def tell_damaged(
    damaged: Iterable[DamagedRecord], group: str, queue: MessageQueue, address: str
) -> None:
    """A line for each, with the message's offset and id as far as they can be told."""
    for each in damaged:
        message = each.message
        name = ("?", "?") if message is None else (message.queue_offset, message.msg_id)
        log.error(
            "a damaged message is passed over group=%s queue=%s/%s/%d offset=%s msg_id=%s "
            "bytes=%d broker=%s problem=%s",
            group, *queue, *name, each.size, address, each.problem,
        )  # fmt: skip


class PullTarget(Protocol):
    """Who takes the messages of one queue."""

    async def room(self) -> None:
        """Return when more may be pulled."""
        ...

    def put(self, pulled: Pulled) -> None:
        """Messages of the queue in order, after the tag filter; perhaps none."""
        ...

    def restart(self, offset: int) -> None:
        """The broker corrected the offset: forget what was pulled, go on there."""
        ...

    @property
    def consumed(self) -> int | None:
        """Everything in front of this offset is done with, as far as that is known."""
        ...


class PullSettings(NamedTuple):
    """How a consumer pulls."""

    batch_size: int
    """Messages per request at most; a broker has limits of its own."""
    suspend: float
    """Seconds that a broker may hold a request until a message arrives."""
    sys_flag: int
    commits_on_pull: bool
    """Tell the broker how far the group got with every pull."""
    interval: float = 0.0
    """Seconds between two pulls that bring something."""
    filters: tuple[FilterHook, ...] = ()
    """What the user's own filters leave of the messages."""


class PullRequest(NamedTuple):
    """What is to be pulled, for whom, and where to begin (class PullRequest)."""

    member: GroupMember
    queue: MessageQueue
    subscription: SubscriptionData
    settings: PullSettings
    offset: int


class QueuePuller:
    """One queue, pulled again and again."""

    def __init__(
        self, request: PullRequest, target: PullTarget, stats: TopicStats | None = None
    ) -> None:
        member, subscription = request.member, request.subscription
        self.queue = request.queue
        self.next_offset: int = request.offset
        self.last_pull_ms: int = member.instance.clock.time_ms()
        self._last_pull = member.instance.clock.monotonic()
        self.is_gone: bool = False
        """The topic is not there; it may be another one when it is back."""
        self._waits = True
        """For somebody else, not for a broker."""
        self._stats = stats or TopicStats()
        self._member = member
        self._instance = member.instance
        self._subscription = subscription
        self._settings = request.settings
        self._target = target
        self._filter = TagFilter(subscription)
        self._broker_id = MASTER_ID
        self._cause: Cause | None = None
        """What keeps it from being pulled at present."""

    async def run(self) -> None:
        """Pull until cancelled. What goes wrong is tried again, and told once for all queues that
        it concerns."""
        try:
            await self._run()
        finally:
            self._is_told(None)

    async def _run(self) -> None:
        self._waits = True
        while True:
            await self._target.room()
            self._waits = False
            changes = self._instance.routes.changes
            try:
                pulled = await self._pull()
                if self.is_gone:
                    await self._begin_anew()
                    continue
            except (RemotingError, BrokerError) as error:
                await self._after_failure(error, changes)
                continue
            if self._cause is not None:
                self._instance.outages.works(self._cause, who=self.queue)
                self._cause = None
            if pulled.status is PullStatus.OFFSET_ILLEGAL:
                pulled = pulled._replace(next_offset=self._corrected(pulled.next_offset))
                self._instance.outages.occurs(
                    log,
                    ("out of range", self._member.group, self.queue),
                    "offset out of range group=%s queue=%s/%s/%d asked=%d goes on at=%d",
                    self._member.group, *self.queue, self.next_offset, pulled.next_offset,
                )  # fmt: skip
                await self._instance.clock.sleep(ERROR_DELAY)
            is_stuck = self._is_stuck(pulled)
            self.next_offset = pulled.next_offset
            self._target.put(pulled)
            self._waits = True
            if is_stuck:
                await self._instance.clock.sleep(ERROR_DELAY)
            elif self._settings.interval and pulled.status is PullStatus.FOUND:
                await self._instance.clock.sleep(self._settings.interval)

    def _corrected(self, offset: int) -> int:
        """Where to go on, after the broker has said that ``offset`` is the nearest that there is.
        Where its queue ends in front of what was pulled, as a replica's that was behind, part of
        what was not consumed yet may be there still. Where it begins behind that, what is held is
        held."""
        if offset < self.next_offset:
            consumed = self._target.consumed
            offset = offset if consumed is None else min(offset, consumed)
            self._target.restart(offset)
        return offset

    def _topic_is_gone(self) -> None:
        """What of it is in hand is history, and so is how far we got: in a topic of that name that
        is made later these are other messages."""
        if not self.is_gone and not self._member.broadcasting:
            self.is_gone = True
            self._target.restart(self.next_offset)
            self._member.offsets.forget(self.queue)

    async def _begin_anew(self) -> None:
        """The broker knows whether it is the same topic: then it knows how far the group is. Raises
        ``RemotingError``, ``BrokerError``."""
        offset = await self._member.start_offset(self.queue)
        self.is_gone, self.next_offset = False, offset
        self._target.restart(offset)

    def _is_stuck(self, pulled: Pulled) -> bool:
        """It is told to ask again at once, and where it is already: by a slave that has less than
        was read at its master, until that one is back."""
        return pulled.status is PullStatus.NO_MATCHED_MSG and pulled.next_offset <= self.next_offset

    def stalled(self) -> bool:
        """It should pull, but nothing has come back for two minutes, or for longer than a broker
        may hold a pull: neither messages nor an error."""
        longest = max(MAX_IDLE_S, self._settings.suspend + 2 * _GRACE)
        return not self._waits and self._instance.clock.monotonic() - self._last_pull > longest

    async def _pull(self) -> Pulled:
        """One request, unless damage has other replicas asked too. Raises ``RemotingError``,
        ``BrokerError``."""
        instance, queue, settings = self._instance, self.queue, self._settings
        replica = instance.routes.replica(queue.broker_name, self._broker_id)
        if replica is None:
            await instance.routes.refresh(queue.topic)
            raise ConnectError(
                f"the broker {queue.broker_name} is not known to the name server at present"
            )
        address, is_slave = replica
        if (back_off := instance.remoting.back_off(address)) > 0:
            await instance.clock.sleep(back_off)
        sys_flag = settings.sys_flag
        commit_offset = 0
        tells = settings.commits_on_pull and not is_slave and not self.is_gone
        if tells and self._member.may_tell(queue):
            commit_offset = self._member.offsets.get(queue) or 0
            if commit_offset > 0:
                sys_flag |= PullSysFlag.COMMIT_OFFSET
        self.last_pull_ms = instance.clock.time_ms()
        began = self._last_pull = instance.clock.monotonic()
        pulled = await self._ask(address, sys_flag, commit_offset, settings.suspend + _GRACE)
        self._broker_id = pulled.suggested_broker_id
        if pulled.damaged:
            pulled = await self._undamaged(pulled, address)
        if not pulled.messages:
            return pulled
        stats = self._stats
        stats.pulls += 1
        stats.pulled += len(pulled.messages)
        stats.pull_seconds += instance.clock.monotonic() - began
        messages = self._filter.keep(pulled.messages)
        if settings.filters:
            messages = filtered(messages, settings.filters)
        return pulled if messages is pulled.messages else pulled._replace(messages=messages)

    async def _ask(self, address: str, sys_flag: int, commit_offset: int, timeout: float) -> Pulled:
        """Raises ``RemotingError``, ``BrokerError``."""
        queue, settings = self.queue, self._settings
        by_text = sys_flag & PullSysFlag.SUBSCRIPTION
        answer = await self._instance.remoting.invoke(
            address,
            RequestCode.PULL_MESSAGE,
            PullMessageRequest(
                consumer_group=self._member.group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=self.next_offset,
                max_msg_nums=settings.batch_size,
                sys_flag=sys_flag,
                commit_offset=commit_offset,
                suspend_timeout_millis=int(settings.suspend * 1000),
                subscription=self._subscription.sub_string if by_text else None,
                sub_version=0
                if sys_flag & PullSysFlag.LITE_PULL
                else self._subscription.sub_version,
                expression_type=self._subscription.expression_type,
                bname=queue.broker_name,
            ),
            timeout=timeout,
        )
        return read_pulled(answer, address, queue)

    async def _undamaged(self, pulled: Pulled, asked: str) -> Pulled:
        """The same from other replicas. What is intact nowhere is told, counted and passed over: it
        must not hold up its queue.
        """
        sys_flag = self._settings.sys_flag & ~PullSysFlag.SUSPEND
        for address in self._instance.routes.brokers.get(self.queue.broker_name, {}).values():
            if address == asked or not pulled.damaged:
                continue
            try:
                other = await self._ask(address, sys_flag, 0, self._instance.request_timeout)
            except (RemotingError, BrokerError) as error:
                self._instance.outages.occurs(
                    log,
                    ("no help", address),
                    "another replica is of no help against damage broker=%s error=%s",
                    address,
                    error,
                )
                continue
            better = together(pulled, other, self.next_offset)
            if len(better.damaged) < len(pulled.damaged):
                self._instance.outages.occurs(
                    log,
                    ("read there", self._member.group, self.queue),
                    "damaged here, read there group=%s queue=%s/%s/%d from_offset=%d here=%s "
                    "there=%s",
                    self._member.group, *self.queue, self.next_offset, asked, address,
                )  # fmt: skip
                pulled = better
        self._member.damaged += len(pulled.damaged)
        tell_damaged(pulled.damaged, self._member.group, self.queue, asked)
        return pulled

    def _is_told(self, cause: Cause | None) -> None:
        """From now on it is this that concerns the queue, whatever was before."""
        if self._cause is not None and self._cause != cause:
            self._instance.outages.ends(self._cause, who=self.queue)
        self._cause = cause

    async def _after_failure(self, error: RemotingError | BrokerError, changes: int) -> None:
        """``changes``: of the routes, as it was asked."""
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            await self._instance.clock.sleep(FLOW_CONTROL_DELAY)
            return
        self._broker_id = MASTER_ID  # a slave that fails suggests nobody else
        kind = error.code if isinstance(error, BrokerError) else "unreachable"
        cause = ("pull", self._member.group, self.queue.broker_name, kind)
        self._is_told(cause)
        self._instance.outages.fails(
            log,
            cause,
            "pull failed group=%s queue=%s/%s/%d error=%s",
            self._member.group,
            *self.queue,
            error,
            who=self.queue,
        )
        if kind == ResponseCode.TOPIC_NOT_EXIST:
            self._topic_is_gone()
        if isinstance(error, BrokerError) and error.code in _UNKNOWN_SUBSCRIPTION:
            await (
                self._instance.heartbeat()
            )  # the broker was restarted, or has not heard of a change yet
        elif isinstance(error, ConnectError | ConnectionLostError):
            if self._instance.routes.changes == changes:
                # to another replica, without waiting for the regular look
                await self._instance.masters.changed(self.queue.topic, ERROR_DELAY)
            return
        await self._instance.clock.sleep(ERROR_DELAY)
