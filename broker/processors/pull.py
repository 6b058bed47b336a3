"""Handing out messages: PULL_MESSAGE and LITE_PULL_MESSAGE (classes PullMessageProcessor,
PullRequestHoldService; ``headers.md`` §A.3, ``broker-services.md`` §6).

Hot: a pull is its header, its checks, one ``get`` and one answer. A pull that finds nothing and may
wait is held (``long_polling.py``): it is read again when a message arrives in its queue, and
answered at its deadline at the latest.

Filters that look at messages one by one (SQL92) look at about a millisecond's worth of them: a pull
that has found none by then is answered PULL_RETRY_IMMEDIATELY with the offset to go on from, as the
original does after 800; a held pull goes on in the next turns of the loop. Where many wait for one
queue, some are answered in each turn.

One file: a pull that is held goes through the same checks, reads and answers as one that is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ...remoting.clock import Clock
from ...remoting.dispatch import PENDING, Body, Context, Handler, Outcome, Reply
from ...remoting.errors import RequestError
from ...remoting.peer import Peer
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import PullMessageRequest, PullMessageResponse, PullSysFlag
from ...remoting.protocol.message.properties import tags_code
from ...remoting.protocol.sql92.lexer import MAX_EXPRESSION_LENGTH, FilterError
from ...remoting.protocol.wire import EmptyFields
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.model.status import GetMessageStatus, GetResult
from ..config.config import BrokerConfig
from ..pulls.long_polling import HeldPull, HeldPulls, Wanted
from ..pulls.offset_moved import OffsetMovedEvents
from ..pulls.slow_consumers import SlowConsumers
from ..state.clients import TAG, Subscription
from ..state.consumer_filters import RetryFilter, compile_expression
from ..state.state import State
from ..state.topics import Topic, TopicChange
from ..stats.broker_stats import LATENCY_EVERY, BrokerStats, PullCounter
from .send import FAQ

log: Final = logging.getLogger(__name__)

_FOUND: Final = GetMessageStatus.FOUND
_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_NO_FIELDS: Final = EmptyFields()
_NO_COUNTERS: Final[Mapping[int, PullCounter]] = {}
_MASTER_ID: Final = 0
_TAG_TYPES: Final = (None, "", TAG)
_LONGEST_HOLD_MS: Final = 3_600_000
_CROWDED_HOLD_MS: Final = 15_000
"""As long as clients ask for (brokerSuspendMaxTimeMillis): then who has more than its share has to
give way."""
_PULLS_PER_TURN: Final = 64
"""So many held pulls are answered in one turn of the loop: about a millisecond's work."""


class PullProcessor:
    """Checks a pull, reads, answers or holds."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        state: State,
        stats: BrokerStats,
        clock: Clock,
        *,
        moved: OffsetMovedEvents,
        slow: SlowConsumers,
    ) -> None:
        self._config = config
        self.store: Final = store
        self._topics = state.topics
        self._groups = state.groups
        self._consumers = state.consumers
        self._offsets = state.offsets
        self._filters = state.filters
        self._stats = stats
        self._clock = clock
        self._moved = moved
        self._slow = slow
        self.read_role()
        self._held = HeldPulls()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._scans: deque[HeldPull] = deque()
        self._scan_is_due = False
        self._homeless: deque[HeldPull] = deque()
        """Their topic was deleted; they are to be told."""

    def read_role(self) -> None:
        """Take over what the broker is: at start, and whenever that changes."""
        config = self.store.config
        self._is_slave = not config.is_master
        self._corrects_offsets = config.is_master or config.offset_check_in_slave

    @property
    def table(self) -> dict[RequestCode, Handler]:
        return {RequestCode.PULL_MESSAGE: self.pull, RequestCode.LITE_PULL_MESSAGE: self.pull}

    @property
    def held_pulls(self) -> int:
        """Pulls that wait for messages."""
        return len(self._held)

    def pull(self, request: PullMessageRequest, _body: Body, ctx: Context) -> Outcome:
        try:
            wanted = self._check(request, ctx)
        except RequestError as error:
            return Reply(error.code, _NO_FIELDS, remark=error.remark)
        max_count = request.max_msg_nums
        if wanted is None or isinstance(wanted, frozenset):
            result = self.store.get(
                request.topic,
                request.queue_id,
                request.queue_offset,
                max_count,
                tags=wanted,
                max_bytes=request.max_msg_bytes,
                views=True,
            )
        else:
            result = self._get(
                request.topic, request.queue_id, request.queue_offset, max_count, wanted
            )
        code = (
            ResponseCode.SUCCESS if result.status is _FOUND else _code(result, request.queue_offset)
        )
        if (
            request.sys_flag & PullSysFlag.COMMIT_OFFSET and not self._is_slave
        ):  # a slave's master is told otherwise
            self._offsets.commit(
                request.consumer_group, request.topic, request.queue_id, request.commit_offset
            )
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & PullSysFlag.SUSPEND:
            if not self._held.is_full_for(ctx.connection):
                self._hold(request, wanted, ctx)
                return PENDING
            ctx.connection.outages.occurs(
                log,
                ("held",),
                "pulls are answered at once, too many are held already held=%d group=%s",
                len(self._held),
                request.consumer_group,
            )
        return self._answer(code, result, request, ctx.received_at_ms)

    def _get(
        self, topic: str, queue_id: int, offset: int, max_count: int, wanted: Wanted
    ) -> GetResult:
        if wanted is None or isinstance(wanted, frozenset):
            return self.store.get(topic, queue_id, offset, max_count, tags=wanted)
        return self.store.get(topic, queue_id, offset, max_count, record_filter=wanted)

    # --- checks
    # ----------------------------------------------------------------------------------------------

    def _check(self, request: PullMessageRequest, ctx: Context) -> Wanted:
        """The checks in the original's order, then what is wanted. Raises ``RequestError``."""
        if not self._config.is_readable:
            raise _no_permission(
                f"the broker[{self._config.broker_ip1}] pulling message is forbidden"
            )
        group_name = request.consumer_group
        group = self._groups.get(group_name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group_name}] does not exist, {FAQ}",
            )
        if not group.consume_enable:
            raise _no_permission(f"subscription group no permission, {group_name}")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, apply first please! {FAQ}",
            )
        if not topic.readable:
            raise _no_permission(f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{ctx.peer}]",
            )
        if request.sys_flag & PullSysFlag.SUBSCRIPTION:
            wanted = self._wanted_by_header(request)
        else:
            wanted = self._wanted_by_heartbeat(
                request, broadcast_allowed=group.consume_broadcast_enable
            )
        if (
            topic.retry_of is not None
            and self._config.filter_support_retry
            and not isinstance(wanted, frozenset)
        ):
            return RetryFilter(self._filters, topic.retry_of)
        return wanted

    def _wanted_by_header(self, request: PullMessageRequest) -> Wanted:
        """Raises ``RequestError``, also for an expression that does not compile (the original then
        hands out everything)."""
        if request.expression_type in _TAG_TYPES:
            expression = request.subscription
            if expression is not None and len(expression) > MAX_EXPRESSION_LENGTH:
                remark = (
                    f"the tag expression has {len(expression)} characters, the limit is "
                    f"{MAX_EXPRESSION_LENGTH}"
                )
                raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
            return wanted_tags(expression)
        self._check_property_filter(request.expression_type)
        try:
            return compile_expression(request.subscription, request.expression_type)
        except FilterError as error:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed, {error}",
            ) from error

    def _wanted_by_heartbeat(
        self, request: PullMessageRequest, *, broadcast_allowed: bool
    ) -> Wanted:
        """What the group's heartbeats say. Raises ``RequestError``."""
        name = request.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist, group: {name}{FAQ}",
            )
        if group.broadcast and not broadcast_allowed:
            raise _no_permission(f"the consumer group[{name}] can not consume by broadcast way")
        subscription = group.subscriptions.get(request.topic)
        if subscription is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist, group: {name}, topic: "
                f"{request.topic}{FAQ}",
            )
        if subscription.sub_version < request.sub_version:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        if subscription.is_tag or subscription.matches_all:
            return None if subscription.matches_all else subscription.codes
        return self._registered_filter(request, subscription)

    def _registered_filter(self, request: PullMessageRequest, subscription: Subscription) -> Wanted:
        """The group's compiled expression. Raises ``RequestError``."""
        name, topic = request.consumer_group, request.topic
        found = self._filters.get(topic, name)
        if found is None:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "no expression of the group was accepted for the topic, the broker's log has the "
                "reason, "
                f"group: {name}, topic: {topic}",
            )
        if found.version < request.sub_version:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the broker has an older expression of the group, group: {name}, topic: {topic}",
            )
        self._check_property_filter(subscription.expression_type)
        return found

    def _check_property_filter(self, expression_type: str | None) -> None:
        if not self._config.enable_property_filter:
            raise RequestError(ResponseCode.SYSTEM_ERROR, no_property_filter(expression_type))

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def _answer(
        self,
        code: ResponseCode,
        result: GetResult,
        request: PullMessageRequest,
        received_at_ms: int | None = None,
    ) -> Reply:
        """``received_at_ms``: when the pull came, unless it was held."""
        suggested = self._next_broker(
            request.consumer_group, behind=result.suggest_pulling_from_slave
        )
        if code is ResponseCode.SUCCESS:
            self._found(request, result, received_at_ms)
        else:
            self._stats.get_miss += 1
            if code is ResponseCode.PULL_OFFSET_MOVED:
                if self._corrects_offsets:
                    self._moved.tell(request, result.next_begin_offset)
                else:
                    code = ResponseCode.PULL_RETRY_IMMEDIATELY
                    suggested = self._suggested_broker(request.consumer_group, behind=False)
        header = PullMessageResponse(
            suggest_which_broker_id=suggested,
            next_begin_offset=result.next_begin_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            damaged_msg_nums=result.damaged or None,
        )
        return Reply(
            code, header, result.body, "FOUND" if result.status is _FOUND else result.status.name
        )

    def _found(
        self, request: PullMessageRequest, result: GetResult, received_at_ms: int | None
    ) -> None:
        """Count what is handed out."""
        stats, topic, group, queue_id = (
            self._stats,
            request.topic,
            request.consumer_group,
            request.queue_id,
        )
        counter = stats.pulls.get((topic, group), _NO_COUNTERS).get(queue_id) or stats.pull_counter(
            topic, group, queue_id
        )
        if received_at_ms is not None and counter.pulls % LATENCY_EVERY == 0:
            latency_ms = self._clock.time_ms() - received_at_ms
            counter.latency_ms += LATENCY_EVERY * latency_ms
            if latency_ms > stats.get_time_max_ms:
                stats.get_time_max_ms = latency_ms
        count, size = result.count, len(result.body)
        counter.pulls += 1
        counter.messages += count
        counter.size_bytes += size
        counter.behind_bytes = result.behind_bytes
        counter.next_offset = result.next_begin_offset
        stats.get_found += 1
        stats.get_messages += count
        stats.get_bytes += size
        if self._config.disable_consume_if_consumer_read_slowly:
            self._slow.note(group, topic, queue_id, result.behind_bytes)

    def _next_broker(self, group_name: str, *, behind: bool) -> int:
        """Where a group that found something is to pull next; it is told only where slaves may be
        read from."""
        return (
            self._suggested_broker(group_name, behind=behind)
            if self._config.slave_read_enable
            else _MASTER_ID
        )

    def _suggested_broker(self, group_name: str, *, behind: bool) -> int:
        """Where the group is to pull next: who reads what lies far back is sent to a slave."""
        group = self._groups.find(group_name) or SubscriptionGroupConfig(group_name=group_name)
        return group.which_broker_when_consume_slowly if behind else group.broker_id

    # --- waiting
    # ----------------------------------------------------------------------------------------------

    def _hold(self, request: PullMessageRequest, wanted: Wanted, ctx: Context) -> None:
        config = self._config
        wait_ms = (
            request.suspend_timeout_millis
            if config.long_polling_enable
            else config.short_polling_time_mills
        )
        longest_ms = _CROWDED_HOLD_MS if self._held.is_crowded else _LONGEST_HOLD_MS
        wait_ms = max(0, min(wait_ms, longest_ms))
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
            wanted=wanted,
            max_count=max(1, request.max_msg_nums),
        )
        self._held.hold(held)
        self.store.arrivals.watch(held.topic, held.queue_id)
        self._set_timer()

    def notify_soon(self) -> None:
        """Messages arrived that somebody waits for: look at them once the read event is through."""
        asyncio.get_running_loop().call_soon(self.store.arrivals.notify)

    def arrived(
        self, topic: str, queue_id: int, max_offset: int, tags_code: int, store_timestamp: int
    ) -> None:
        """Read for those who wait for a message of that queue (``Arrivals.listeners``)."""
        for number, held in enumerate(self._held.waiting(topic, queue_id)):
            if held.offset < max_offset and not held.scanning:
                if number < _PULLS_PER_TURN:
                    self._read_again(held)
                else:
                    self._scan_on(held)

    def _read_again(self, held: HeldPull, *, last: bool = False) -> None:
        """Answer a held pull if there is something for it now; ``last``: answer it in any case. It
        is checked anew, as in the original: what it may have, and what its group wants, may be
        something else by now.

        What the filter did not want is not looked at a second time: the pull goes on behind it.
        """
        try:
            self._held.want(held, self._check(held.ctx.request, held.ctx))
            result = self._get(held.topic, held.queue_id, held.offset, held.max_count, held.wanted)
        except (RequestError, StoreError) as error:
            self._release(held)
            code = error.code if isinstance(error, RequestError) else ResponseCode.SYSTEM_ERROR
            held.ctx.reply(Reply(code, _NO_FIELDS, remark=str(error)))
            return
        code = _code(result, held.offset)
        if (
            code is ResponseCode.PULL_RETRY_IMMEDIATELY
            and result.next_begin_offset > held.offset
            and not last
        ):
            held.offset = result.next_begin_offset
            if held.offset < result.max_offset:
                self._scan_on(held)
        elif last or code is not ResponseCode.PULL_NOT_FOUND:
            self._release(held)
            held.ctx.reply(self._answer(code, result, held.ctx.request))

    def _scan_on(self, held: HeldPull) -> None:
        """Look at it in another turn of the loop: there is more behind what was looked at, or
        others had this turn."""
        held.scanning = True
        self._scans.append(held)
        if not self._scan_is_due:
            self._scan_is_due = True
            asyncio.get_running_loop().call_soon(self._scan)

    def _scan(self) -> None:
        """A turn's share: as many as are answered or wait on at once, or one that has to be gone
        through."""
        for _ in range(min(len(self._scans), _PULLS_PER_TURN)):
            held = self._scans.popleft()
            held.scanning = False
            if not held.gone:
                self._read_again(held)
                if held.scanning:
                    break
        self._scan_is_due = bool(self._scans)
        if self._scan_is_due:
            asyncio.get_running_loop().call_soon(self._scan)

    def _release(self, held: HeldPull) -> None:
        self._held.release(held)
        if not self._held.waits_for(held.topic, held.queue_id):
            self.store.arrivals.watch(held.topic, held.queue_id, watched=False)

    def _forget(self, connection: Peer) -> None:
        for held in self._held.of_connection(connection):
            self._release(held)

    def topic_changed(self, topic: Topic, change: TopicChange) -> None:
        """Nothing will arrive in the queues of a topic that is gone, not even when it is made
        again."""
        if change is not TopicChange.DELETED:
            return
        self._homeless += self._held.take_topic(topic.name)
        self._tell_homeless()

    def _tell_homeless(self) -> None:
        """Some in a turn of the loop."""
        for _ in range(min(len(self._homeless), _PULLS_PER_TURN)):
            held = self._homeless.popleft()
            if not held.gone:
                self._release(held)
                remark = f"topic[{held.topic}] not exist, apply first please! {FAQ}"
                held.ctx.reply(Reply(ResponseCode.TOPIC_NOT_EXIST, _NO_FIELDS, remark=remark))
        if self._homeless:
            asyncio.get_running_loop().call_soon(self._tell_homeless)

    def _set_timer(self) -> None:
        deadline = self._held.next_deadline
        if deadline is None:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, deadline - self._clock.monotonic())
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(
            when, self._deadline
        )  # uvloop: no TimerHandle for what is due at once
        self._timer_at = when

    def _deadline(self) -> None:
        self._timer = None
        for held in self._held.expired(self._clock.monotonic() + 0.001, _PULLS_PER_TURN):
            self._read_again(held, last=True)
        self._set_timer()


def _code(result: GetResult, offset: int) -> ResponseCode:
    """An empty queue is only "nothing yet" to somebody who starts at 0."""
    if offset == 0 and result.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE:
        return ResponseCode.PULL_NOT_FOUND
    return _CODES[result.status]


@lru_cache(maxsize=1024)
def wanted_tags(expression: str | None) -> frozenset[int] | None:
    """The tags codes of a tag expression (class FilterAPI): ``None`` for all of them.

    Raises ``RequestError`` when it is made of separators only.

    >>> wanted_tags("TagA || TagB") == {2598919, 2598920}, wanted_tags("*")
    (True, None)
    """
    if expression is None or expression in ("", "*"):
        return None
    codes = frozenset(tags_code(tag.strip()) for tag in expression.split("||") if tag.strip())
    if not codes:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        )
    return codes


def no_property_filter(expression_type: str | None) -> str:
    """Why a broker without ``enablePropertyFilter`` refuses an expression that is not of tags."""
    return f"The broker does not support consumer to filter message by {expression_type}"


def _no_permission(remark: str) -> RequestError:
    return RequestError(ResponseCode.NO_PERMISSION, remark)
