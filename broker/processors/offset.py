"""Offsets of consumers and of queues: 14, 15, 29, 30, 31, 32, 43, 9200 (classes
ConsumerManageProcessor, AdminBrokerProcessor; ``headers.md`` A.4 to A.6)."""

from __future__ import annotations

import os
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.protocol.bodies.codec import encode_in_slices
from ...remoting.protocol.bodies.consumer_offsets import QueueEndTable
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import OffsetResponse
from ...remoting.protocol.commands.offset import (
    AllOffsetsResponse,
    GetEarliestMsgStoretimeResponse,
    QueryConsumerOffsetRequest,
    QueueEndsRequest,
    QueueRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from ...remoting.protocol.commands.topic import KnownTableRequest
from ...remoting.protocol.wire import EmptyFields
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps
from ...store.message_store import MessageStore
from ..state.consumer_offsets import NO_OFFSET, ConsumerOffsets
from ..state.topics import Topics

_MOST_DIGITS: Final = 18
_DONE: Final = Reply(header=EmptyFields())
_NOT_FOUND: Final = Reply(
    ResponseCode.QUERY_NOT_FOUND,
    header=EmptyFields(),
    remark="Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
)


class OffsetProcessor:
    def __init__(self, offsets: ConsumerOffsets, store: MessageStore, topics: Topics) -> None:
        self._process: Final = os.urandom(8).hex()
        """Another one counts changes from 0 again."""
        self._offsets = offsets
        self._store = store
        self._topics = topics
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_store_time,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._sliced.handler(self.all_consumer_offsets),
            RequestCode.GET_QUEUE_ENDS: self._sliced.handler(self.queue_ends),
        }

    def query(self, request: QueryConsumerOffsetRequest, _body: Body, _ctx: Context) -> Reply:
        """A group without an offset begins at 0 in a young queue; in an old one the client
        decides."""
        offset = self._offsets.get(request.consumer_group, request.topic, request.queue_id)
        if offset > NO_OFFSET:
            return Reply(header=OffsetResponse(offset=offset))
        if request.set_zero_if_not_found is not False and self._is_young(
            request.topic, request.queue_id
        ):
            return Reply(header=OffsetResponse(offset=0))
        return _NOT_FOUND

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Its first message was not deleted, and is recent enough to be in memory."""
        first = self._store.get(topic, queue_id, 0, 1)
        return first.min_offset <= 0 and not (first.count and first.suggest_pulling_from_slave)

    def update(self, request: UpdateConsumerOffsetRequest, _body: Body, _ctx: Context) -> Reply:
        """Done, whatever is wanted, as in the original; kept is what is of a queue that there is,
        because the table is everybody's."""
        topic, queue_id = request.topic, request.queue_id
        if not self._topics.has_queue(topic, queue_id, self._store.max_offset):
            return _DONE
        if self._offsets.is_of_deleted(topic, is_there=topic in self._topics):
            return _DONE
        self._offsets.commit(request.consumer_group, topic, queue_id, request.commit_offset)
        return _DONE

    def search(self, request: SearchOffsetRequest, _body: Body, _ctx: Context) -> Reply:
        offset = self._store.entries.offset_by_time(
            request.topic, request.queue_id, request.timestamp
        )
        return Reply(header=OffsetResponse(offset=offset))

    def max_offset(self, request: QueueRequest, _body: Body, _ctx: Context) -> Reply:
        return Reply(
            header=OffsetResponse(offset=self._store.max_offset(request.topic, request.queue_id))
        )

    def min_offset(self, request: QueueRequest, _body: Body, _ctx: Context) -> Reply:
        return Reply(
            header=OffsetResponse(offset=self._store.min_offset(request.topic, request.queue_id))
        )

    def earliest_store_time(self, request: QueueRequest, _body: Body, _ctx: Context) -> Reply:
        timestamp = self._store.entries.first_stored_at(request.topic, request.queue_id)
        return Reply(header=GetEarliestMsgStoretimeResponse(timestamp=timestamp))

    def queue_ends(self, request: QueueEndsRequest, _body: Body, _ctx: Context) -> Steps[Reply]:
        """For replicas."""
        ends = yield from self._store.gone_queues.ends_before(request.begin)
        return Reply(body=(yield from encode_in_slices(QueueEndTable(end_table=ends))))

    def all_consumer_offsets(
        self, request: KnownTableRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        """For slaves, and for tools. A slave that has taken over a state of this process gets what
        has changed since."""
        recent = self._offsets.recent
        state, changed = f"{self._process}-{recent.number}", None
        if request.known is not None:
            process, _, number = request.known.partition("-")
            if process == self._process and number.isdecimal() and len(number) < _MOST_DIGITS:
                changed = recent.since(int(number))
        record = yield from self._offsets.record_in_slices(changed)
        body = yield from encode_in_slices(record)
        if request.known is None:
            return Reply(body=body)
        since = None if changed is None else request.known
        header = AllOffsetsResponse(state=state, since=since)
        return Reply(header=header, body=body)
