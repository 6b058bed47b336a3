"""Looking into a consume queue: 321 (class AdminBrokerProcessor; ``headers.md`` part C)."""

from __future__ import annotations

import base64
import json
from typing import Final

from ...remoting.dispatch import NOT_SET_REMARK, Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueBody
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.admin import QueryConsumeQueueRequest
from ...remoting.protocol.fastjson import writer as fastjson_writer
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps
from ...store.message_store import MessageStore
from ...store.queues.consume_queue_ext import EXT_HEAD, ExtUnit
from ..state.clients import Consumers, Subscription
from ..state.consumer_filters import ConsumerFilter, ConsumerFilters

MAX_ENTRIES: Final = 10_000
"""More are not answered at once (the original: as many as lie in one file)."""
_AT_ONCE: Final = 256


class ConsumeQueueProcessor:
    def __init__(self, consumers: Consumers, store: MessageStore, filters: ConsumerFilters) -> None:
        self._consumers = consumers
        self._store = store
        self._filters = filters
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.QUERY_CONSUME_QUEUE: self.query}

    async def query(self, request: QueryConsumeQueueRequest, _body: Body, ctx: Context) -> Reply:
        """Entries of a queue, and whether the subscription of a group takes them. An index that is
        not there is code 0."""
        topic, queue_id, store = request.topic, request.queue_id, self._store
        first = store.entries.some(topic, queue_id, request.index, 1)
        if first is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        if not first:
            return Reply(remark=f"Index {request.index} of {queue_id}@{topic} is not exist!")
        group = request.consumer_group
        subscription = self._consumers.subscription(group, topic) if group is not None else None
        body = QueryConsumeQueueBody(
            subscription_data=subscription.data if subscription is not None else None,
            filter_data=self._filter_data(topic, group, subscription)
            if group is not None
            else None,
            queue_data=await self._sliced.alone(
                self._entries(request, subscription), ctx.connection
            ),
            max_queue_index=store.max_offset(topic, queue_id),
            min_queue_index=store.min_offset(topic, queue_id),
        )
        return Reply(body=encode_body(body), remark=NOT_SET_REMARK)

    def _filter_data(self, topic: str, group: str, subscription: Subscription | None) -> str:
        if subscription is None:
            return f"{group}@{topic} is not online!"
        found = self._filters.get(topic, group)
        return "null" if found is None else fastjson_writer.dumps_pretty(found.record())

    def _entries(
        self, request: QueryConsumeQueueRequest, subscription: Subscription | None
    ) -> Steps[list[ConsumeQueueData]]:
        """To the end of the file they lie in at most, as in the original; others have their turn in
        between."""
        wanted = min(max(0, request.count), MAX_ENTRIES)
        rows = (
            self._store.entries.some(request.topic, request.queue_id, request.index, wanted) or ()
        )[:wanted]
        group = request.consumer_group or ""
        sql = (
            None
            if subscription is None or subscription.is_tag
            else self._filters.get(request.topic, group)
        )
        found = []
        for number, (phy_offset, size, tags_code) in enumerate(rows):
            unit = self._store.entries.ext_unit(
                request.topic, request.queue_id, request.index + number
            )
            entry = ConsumeQueueData(
                physic_offset=phy_offset,
                physic_size=size,
                tags_code=tags_code,
                extend_data_json=None if unit is None else _extension_text(unit),
                bit_map=None
                if unit is None
                else "".join(f"{byte:08b}" for byte in unit.bitmap) or None,
                eval=subscription is not None
                and unit is not None
                and _takes(subscription, sql, tags_code, unit),
            )
            found.append(entry)
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield
        return found


def _takes(
    subscription: Subscription, sql: ConsumerFilter | None, tags_code: int, unit: ExtUnit
) -> bool:
    """By the extension of a message: the original does not say anything of one without."""
    if subscription.is_tag:
        return subscription.matches_all or tags_code in subscription.codes
    return sql is None or sql.accepts_ext(unit)


def _extension_text(unit: ExtUnit) -> str:
    fields = {
        "bitMapSize": len(unit.bitmap),
        "filterBitMap": base64.b64encode(unit.bitmap).decode(),
        "msgStoreTime": unit.store_timestamp,
        "size": EXT_HEAD.size + len(unit.bitmap),
        "tagsCode": unit.tags_code,
    }
    return json.dumps(fields, separators=(",", ":"))
