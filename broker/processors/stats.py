"""Statistics: 315 and 317 (class AdminBrokerProcessor; ``headers.md`` part C)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.protocol.bodies.codec import encode_body, encode_in_slices
from ...remoting.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.admin import ViewBrokerStatsDataRequest
from ...remoting.protocol.commands.group import GetConsumeStatsInBrokerRequest
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps
from ...store.message_store import MessageStore
from ..monitoring.consume_progress import ConsumeProgress, check_queue_count
from ..registry.registration import Identity
from ..state.subscription_groups import SubscriptionGroups
from ..stats.broker_stats import BrokerStats
from ..stats.stats_windows import StatsWindows

_FALL_SIZE: Final = "GROUP_GET_FALL_SIZE"
_FALL_TIME: Final = "GROUP_GET_FALL_TIME"
_GROUPS_AT_ONCE: Final = 256


class StatsProcessor:
    def __init__(
        self,
        windows: StatsWindows,
        stats: BrokerStats,
        groups: SubscriptionGroups,
        progress: ConsumeProgress,
        store: MessageStore,
        identity: Callable[[], Identity],
        now_ms: Callable[[], int],
        max_queues: int,
    ) -> None:
        """``max_queues``: of an answer."""
        self._max_queues = max_queues
        self._sliced = SlicedRequests()
        self._windows = windows
        self._stats = stats
        self._groups = groups
        self._progress = progress
        self._store = store
        self._identity = identity
        self._now_ms = now_ms

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.VIEW_BROKER_STATS_DATA: self.view,
            RequestCode.GET_BROKER_CONSUME_STATS: self._sliced.handler(self.consume_stats),
        }

    async def view(self, request: ViewBrokerStatsDataRequest, _body: Body, ctx: Context) -> Reply:
        """One statistic over the last minute, hour and day. Of how far a group is behind (bytes,
        ms) only the present is known, it stands as the sum of all three."""
        name, key = request.stats_name, request.stats_key
        if name in (_FALL_SIZE, _FALL_TIME):
            behind = self._behind(name, key)
            now = (
                None
                if behind is None
                else BrokerStatsItem(sum=behind, tps=float(behind), avgpt=float(behind))
            )
            data = (
                None
                if now is None
                else BrokerStatsData(stats_minute=now, stats_hour=now, stats_day=now)
            )
        else:
            data = await self._sliced.alone(self._windows.data(name, key), ctx.connection)
        if data is None:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"The stats <{name}> <{key}> not exist")
        return Reply(body=encode_body(data))

    def _behind(self, name: str, key: str) -> int | None:
        """``queueId@topic@group``, of the group's last pull that found something."""
        queue_id, _, rest = key.partition("@")
        topic, _, group = rest.partition("@")
        counters = {each.queue_id: each for each in self._stats.pulls_of(topic, group)}
        counter = (
            counters.get(int(queue_id)) if queue_id.isdecimal() and len(queue_id) < 10 else None
        )
        if counter is None or name == _FALL_SIZE:
            return None if counter is None else counter.behind_bytes
        stored_at = self._store.entries.stored_at(topic, counter.queue_id, counter.next_offset)
        return max(0, self._now_ms() - stored_at) if stored_at > 0 else 0

    def consume_stats(
        self, request: GetConsumeStatsInBrokerRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        """All groups. Others have a turn after each."""
        found: list[dict[str, list[ConsumeStats]]] = []
        by_group = yield from self._progress.offsets.topics_by_group()
        queues = 0
        for group in [each.group_name for each in self._groups]:
            stats: list[ConsumeStats] = []
            for topic in self._progress.known(group, by_group.get(group, [])):
                if topic.order or not request.is_order:
                    check_queue_count(queues := queues + topic.write_queue_nums, self._max_queues)
                    stats.append(
                        (yield from self._progress.of_topic(group, topic, topic.write_queue_nums))
                    )
            found.append({group: stats})
            if len(found) % _GROUPS_AT_ONCE == 0:
                yield
        total = sum(
            each.total_diff for table in found for stats in table.values() for each in stats
        )
        body = ConsumeStatsList(
            consume_stats_list=found, broker_addr=self._identity().broker_addr, total_diff=total
        )
        return Reply(body=(yield from encode_in_slices(body)))
