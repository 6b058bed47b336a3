"""Single messages: QUERY_MESSAGE (12) and VIEW_MESSAGE_BY_ID (33; class QueryMessageProcessor;
``headers.md`` A.9, A.10)."""

from __future__ import annotations

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import (
    NO_RECORD,
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
    ViewMessageResponse,
)
from ...remoting.sliced_requests import SlicedRequests
from ...store.message_store import MessageStore
from ..replication.table_states import TableStates

_NOTHING_FOUND = QueryMessageResponse(index_last_update_timestamp=0, index_last_update_phyoffset=0)
_NOT_ALL = "the index does not have all messages yet"


class QueryProcessor:
    def __init__(self, store: MessageStore, table_states: TableStates) -> None:
        self._store = store
        self._table_states = table_states
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.QUERY_MESSAGE: self.query, RequestCode.VIEW_MESSAGE_BY_ID: self.view}

    async def query(self, request: QueryMessageRequest, _body: Body, ctx: Context) -> Reply:
        """The newest messages with a key, in the order they were stored, of all that were stored
        when it was asked; what the index does not have in time is missing, and that is said. Many
        items may have to be looked at: other requests have their turn in between.
        """
        missing = None if await self._store.indexed() else _NOT_ALL
        count = request.max_num
        if request.unique_key_query:
            count = self._store.config.default_query_max_num
        steps = self._store.query.steps(
            request.topic, request.key, count, request.begin_timestamp, request.end_timestamp
        )
        found = await self._sliced.alone(steps, ctx.connection)
        if not found.records:
            remark = f"can not find message, {missing or 'maybe time range not correct'}"
            return Reply(ResponseCode.QUERY_NOT_FOUND, _NOTHING_FOUND, remark=remark)
        header = QueryMessageResponse(
            index_last_update_timestamp=found.index_last_update_timestamp,
            index_last_update_phyoffset=found.index_last_update_phyoffset,
        )
        return Reply(header=header, body=found.records, remark=missing)

    def view(self, request: ViewMessageRequest, _body: Body, _ctx: Context) -> Reply:
        """The record that begins at an offset of the commit log; to a slave, also whether it has to
        ask for the tables, and where the log ends."""
        record = self._store.readable_record(request.offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{NO_RECORD}, {request.offset}")
        header = None
        if request.tables:
            header = ViewMessageResponse(
                tables=self._table_states.word(), log_end=self._store.log_end
            )
        return Reply(header=header, body=record)
