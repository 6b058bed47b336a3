"""Pulling messages out of one queue, for as long as it is ours (client.md §4.5; class PullAPIWrapper)."""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from ..remoting.errors import (
    BrokerError,
    ConnectError,
    RemotingError,
    SubscriptionNotExist,
    SubscriptionNotLatest,
)
from ..remoting.protocol.bodies.heartbeat import SubscriptionData
from ..remoting.protocol.codes import RequestCode, ResponseCode
from ..remoting.protocol.commands.pull import PullMessageRequest, PullMessageResponse, PullSysFlag
from ..remoting.protocol.message import MessageExt, MessageQueue
from ..remoting.protocol.record import decode_messages
from .group_member import GroupMember
from .subscription import TagFilter

log = logging.getLogger(__name__)

ERROR_DELAY = 1.0
FLOW_CONTROL_DELAY = 0.02
_GRACE = 15.0
"""The broker holds a pull a little longer than it was asked to: that is no timeout yet."""

_PULL_CODES = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Pulled(NamedTuple):
    """What one pull brought."""

    messages: list[MessageExt]
    next_offset: int
    max_offset: int
    """The end of the queue, as the broker saw it."""
    offset_illegal: bool
    """The offset asked for is not in the queue (any more); go on at ``next_offset``."""


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


class PullSettings(NamedTuple):
    """How a consumer pulls."""

    batch_size: int
    """Messages per request at most; a broker has limits of its own."""
    suspend: float
    """Seconds that a broker may hold a request until a message arrives."""
    sys_flag: int
    commits_on_pull: bool
    """Tell the broker how far the group got with every pull."""


class QueuePuller:
    """One queue, pulled again and again."""

    def __init__(
        self,
        member: GroupMember,
        queue: MessageQueue,
        subscription: SubscriptionData,
        settings: PullSettings,
        target: PullTarget,
        offset: int,
    ) -> None:
        self.queue = queue
        self.next_offset = offset
        self.last_pull_ms = 0
        self._member = member
        self._instance = member.instance
        self._subscription = subscription
        self._settings = settings
        self._target = target
        self._filter = TagFilter(subscription)
        self._broker_id = 0
        self._failing = False

    async def run(self) -> None:
        """Pull until cancelled. What goes wrong is logged once and tried again."""
        while True:
            await self._target.room()
            try:
                pulled = await self._pull()
            except (RemotingError, BrokerError) as error:
                await self._after_failure(error)
                continue
            if self._failing:
                self._failing = False
                log.info("pulling again group=%s queue=%s/%s/%d", self._member.group, *self.queue)
            if pulled.offset_illegal:
                log.warning(
                    "offset out of range group=%s queue=%s/%s/%d asked=%d goes on at=%d",
                    self._member.group, *self.queue, self.next_offset, pulled.next_offset,
                )  # fmt: skip
                self._target.restart(pulled.next_offset)
                await self._instance.clock.sleep(ERROR_DELAY)
            self.next_offset = pulled.next_offset
            self._target.put(pulled)

    async def _pull(self) -> Pulled:
        """One request. Raises ``RemotingError``, ``BrokerError``."""
        instance, queue, settings = self._instance, self.queue, self._settings
        replica = instance.routes.replica(queue.broker_name, self._broker_id)
        if replica is None:
            await instance.routes.refresh(queue.topic)
            raise ConnectError(f"the broker {queue.broker_name} is not known to the name server at present")
        address, is_slave = replica
        sys_flag = settings.sys_flag
        commit_offset = 0
        if settings.commits_on_pull and not is_slave:
            commit_offset = self._member.offsets.get(queue) or 0
            if commit_offset > 0:
                sys_flag |= PullSysFlag.COMMIT_OFFSET
        by_text = sys_flag & PullSysFlag.SUBSCRIPTION
        self.last_pull_ms = instance.clock.time_ms()
        answer = await instance.remoting.invoke(
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
                sub_version=0 if by_text else self._subscription.sub_version,
                expression_type=self._subscription.expression_type,
                bname=queue.broker_name,
            ),
            timeout=settings.suspend + _GRACE,
        )
        if answer.code not in _PULL_CODES:
            raise answer.error(address)
        header: PullMessageResponse = answer.header
        self._broker_id = header.suggest_which_broker_id
        messages: list[MessageExt] = []
        if answer.code == ResponseCode.SUCCESS:
            messages = self._filter.keep(decode_messages(answer.body, queue.broker_name))
        return Pulled(
            messages,
            header.next_begin_offset,
            header.max_offset,
            answer.code == ResponseCode.PULL_OFFSET_MOVED,
        )

    async def _after_failure(self, error: RemotingError | BrokerError) -> None:
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            await self._instance.clock.sleep(FLOW_CONTROL_DELAY)
            return
        if not self._failing:
            self._failing = True
            log.warning("pull failed group=%s queue=%s/%s/%d error=%s", self._member.group, *self.queue, error)
        if isinstance(error, SubscriptionNotExist | SubscriptionNotLatest):
            await self._instance.heartbeat()  # the broker was restarted, or has not heard of a change yet
        await self._instance.clock.sleep(ERROR_DELAY)
