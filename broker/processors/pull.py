"""Handing out messages: PULL_MESSAGE and LITE_PULL_MESSAGE (classes PullMessageProcessor, PullRequestHoldService;
``headers.md`` §A.3, ``broker-services.md`` §6).

Hot: a pull is its header, its checks, one ``get`` and one answer. A pull that finds nothing and may wait is held
(``long_polling.py``): it is read again when a message arrives in its queue, and answered at its deadline at the latest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ...remoting.clock import Clock
from ...remoting.connection import Connection
from ...remoting.dispatch import PENDING, Context, Handler, Outcome, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import PullMessageRequest, PullMessageResponse, PullSysFlag
from ...remoting.protocol.message import tags_code
from ...remoting.protocol.wire import EmptyFields
from ...store.message_store import MessageStore
from ...store.status import GetMessageStatus, GetResult
from ..clients import Consumers
from ..config import BrokerConfig
from ..consumer_offsets import ConsumerOffsets
from ..long_polling import HeldPull, HeldPulls
from ..stats import BrokerStats
from ..subscription_groups import SubscriptionGroups
from ..topics import Topic, TopicChange, Topics
from .send import FAQ

_FOUND: Final = GetMessageStatus.FOUND
_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_NO_MESSAGE: Final = (GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE)
_NO_FIELDS: Final = EmptyFields()
_MASTER_ID: Final = 0
_LONGEST_HOLD_MS: Final = 3_600_000

Tags = frozenset[int] | None
"""The tags codes that are wanted, ``None`` for all."""


class PullProcessor:
    """Checks a pull, reads, answers or holds."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        clock: Clock,
        *,
        is_readable: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._stats = stats
        self._clock = clock
        self._is_readable = is_readable
        self._address = config.broker_ip1
        self._long_polling = config.long_polling_enable
        self._short_polling_ms = config.short_polling_time_mills
        self._held = HeldPulls()
        self._timer: asyncio.TimerHandle | None = None
        store.on_arrival.append(self._arrived)
        topics.listeners.append(self._topic_changed)
        store.on_pending(self._notify_soon)

    @property
    def table(self) -> dict[RequestCode, Handler]:
        return {RequestCode.PULL_MESSAGE: self.pull, RequestCode.LITE_PULL_MESSAGE: self.pull}

    @property
    def held_pulls(self) -> int:
        """Pulls that wait for messages."""
        return len(self._held)

    def pull(self, request: PullMessageRequest, _body: memoryview, ctx: Context) -> Outcome:
        try:
            tags = self._check(request, ctx)
        except RequestError as error:
            return Reply(error.code, _NO_FIELDS, remark=error.remark)
        result = self._store.get(
            request.topic, request.queue_id, request.queue_offset, max(1, request.max_msg_nums), tags=tags
        )
        code = _code(result, request.queue_offset)
        if request.sys_flag & PullSysFlag.COMMIT_OFFSET:
            self._offsets.commit(request.consumer_group, request.topic, request.queue_id, request.commit_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & PullSysFlag.SUSPEND and not self._held.is_full:
            self._hold(request, tags, ctx)
            return PENDING
        return self._answer(code, result)

    def _check(self, request: PullMessageRequest, ctx: Context) -> Tags:
        """The checks in the original's order, then the wanted tags. Raises ``RequestError``."""
        if not self._is_readable():
            raise _no_permission(f"the broker[{self._address}] pulling message is forbidden")
        group_name = request.consumer_group
        group = self._groups.get(group_name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group_name}] does not exist, {FAQ}"
            )
        if not group.consume_enable:
            raise _no_permission(f"subscription group no permission, {group_name}")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please! {FAQ}")
        if not topic.readable:
            raise _no_permission(f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{ctx.peer}]",
            )
        if request.sys_flag & PullSysFlag.SUBSCRIPTION:
            _only_tags(request.expression_type)
            return wanted_tags(request.subscription)
        return self._subscribed_tags(request, broadcast_allowed=group.consume_broadcast_enable)

    def _subscribed_tags(self, request: PullMessageRequest, *, broadcast_allowed: bool) -> Tags:
        """From the group's heartbeat. Raises ``RequestError``."""
        name = request.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist, group: {name}{FAQ}"
            )
        if group.broadcast and not broadcast_allowed:
            raise _no_permission(f"the consumer group[{name}] can not consume by broadcast way")
        subscription = group.subscriptions.get(request.topic)
        if subscription is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist, group: {name}, topic: {request.topic}{FAQ}",
            )
        if subscription.sub_version < request.sub_version:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the consumer's subscription not latest, group: {name}, topic: {request.topic}",
            )
        _only_tags(subscription.expression_type)
        return None if subscription.matches_all else subscription.codes

    def _answer(self, code: ResponseCode, result: GetResult) -> Reply:
        stats = self._stats
        if code is ResponseCode.SUCCESS:
            stats.get_found += 1
            stats.get_messages += result.count
            stats.get_bytes += len(result.body)
        else:
            stats.get_miss += 1
        header = PullMessageResponse(
            suggest_which_broker_id=_MASTER_ID,
            next_begin_offset=result.next_begin_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
        )
        return Reply(code, header, result.body, result.status.name)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _hold(self, request: PullMessageRequest, tags: Tags, ctx: Context) -> None:
        wait_ms = request.suspend_timeout_millis if self._long_polling else self._short_polling_ms
        wait_ms = max(0, min(wait_ms, _LONGEST_HOLD_MS))
        connection = ctx.connection
        if "held_pulls" not in connection.attributes:
            connection.attributes["held_pulls"] = True
            connection.on_close.append(self._forget)
        held = HeldPull(
            topic=request.topic,
            queue_id=request.queue_id,
            offset=request.queue_offset,
            deadline=self._clock.monotonic() + wait_ms / 1000,
            connection=connection,
            ctx=ctx,
            tags=tags,
            max_count=max(1, request.max_msg_nums),
        )
        self._held.hold(held)
        self._store.watch(held.topic, held.queue_id)
        self._set_timer()

    def _notify_soon(self) -> None:
        """Messages arrived that somebody waits for: look at them once the read event is through."""
        asyncio.get_running_loop().call_soon(self._store.notify)

    def _arrived(self, topic: str, queue_id: int, max_offset: int, tags_code: int, store_timestamp: int) -> None:
        for held in self._held.waiting(topic, queue_id):
            if held.offset < max_offset:
                self._read_again(held)

    def _read_again(self, held: HeldPull, *, last: bool = False) -> None:
        """Answer a held pull if there is something for it now; ``last``: answer it in any case.

        What the filter did not want is not looked at a second time: the pull goes on behind it.
        """
        while True:
            result = self._store.get(held.topic, held.queue_id, held.offset, held.max_count, tags=held.tags)
            code = _code(result, held.offset)
            if code is not ResponseCode.PULL_RETRY_IMMEDIATELY or result.next_begin_offset <= held.offset:
                break
            held.offset = result.next_begin_offset
        if last or code is not ResponseCode.PULL_NOT_FOUND:
            self._release(held)
            held.ctx.reply(self._answer(code, result))

    def _release(self, held: HeldPull) -> None:
        self._held.release(held)
        if not self._held.waits_for(held.topic, held.queue_id):
            self._store.watch(held.topic, held.queue_id, watched=False)

    def _forget(self, connection: Connection) -> None:
        for held in self._held.of_connection(connection):
            self._release(held)

    def _topic_changed(self, topic: Topic, change: TopicChange) -> None:
        """Nothing will arrive in the queues of a topic that is gone, not even when it is made again."""
        if change is not TopicChange.DELETED:
            return
        for held in self._held.of_topic(topic.name):
            self._release(held)
            remark = f"topic[{topic.name}] not exist, apply first please! {FAQ}"
            held.ctx.reply(Reply(ResponseCode.TOPIC_NOT_EXIST, _NO_FIELDS, remark=remark))

    def _set_timer(self) -> None:
        deadline = self._held.next_deadline
        if deadline is None:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, deadline - self._clock.monotonic())
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._deadline)

    def _deadline(self) -> None:
        self._timer = None
        for held in self._held.expired(self._clock.monotonic() + 0.001):
            self._read_again(held, last=True)
        self._set_timer()


def _code(result: GetResult, offset: int) -> ResponseCode:
    """An empty queue is only "nothing yet" to somebody who starts at 0."""
    if offset == 0 and result.status in _NO_MESSAGE:
        return ResponseCode.PULL_NOT_FOUND
    return _CODES[result.status]


@lru_cache(maxsize=4096)
def wanted_tags(expression: str | None) -> Tags:
    """The tags codes of a tag expression (class FilterAPI): ``None`` for all of them.

    Raises ``RequestError`` when it is made of separators only.

    >>> wanted_tags("TagA || TagB") == {2598919, 2598920}, wanted_tags("*")
    (True, None)
    """
    if expression is None or expression in ("", "*"):
        return None
    codes = frozenset(tags_code(tag.strip()) for tag in expression.split("||") if tag.strip())
    if not codes:
        raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return codes


def _only_tags(expression_type: str | None) -> None:
    if expression_type not in (None, "", "TAG"):
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {expression_type}"
        )


def _no_permission(remark: str) -> RequestError:
    return RequestError(ResponseCode.NO_PERMISSION, remark)
