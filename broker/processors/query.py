"""Single messages: VIEW_MESSAGE_BY_ID (33; class QueryMessageProcessor; ``headers.md`` A.10)."""

from __future__ import annotations

from ...remoting.dispatch import Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import ViewMessageRequest
from ...store.message_store import MessageStore


class QueryProcessor:
    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.VIEW_MESSAGE_BY_ID: self.view}

    def view(self, request: ViewMessageRequest, _body: memoryview, _ctx: Context) -> Reply:
        """The record that begins at an offset of the commit log."""
        record = self._store.message_by_offset(request.offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {request.offset}")
        return Reply(body=record)
