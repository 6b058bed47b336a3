"""When messages of a queue were stored, and which was the first one of a time (client.md §4.4)."""

from __future__ import annotations

from typing import Protocol

from ...client.errors import ConfigError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.offset import QueueRequest, SearchOffsetRequest
from ...remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record import RecordError, read_messages
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response

__all__ = ["TimeSearch"]


class Ask(Protocol):
    """The answer of a replica; of any code without ``check``. Raises ``RemotingError``,
    ``BrokerError``."""

    async def __call__(
        self, code: RequestCode, header: Record, *, check: bool = True
    ) -> Response: ...


class TimeSearch:
    """In one queue."""

    def __init__(self, ask: Ask, queue: MessageQueue, topic: str, group: str) -> None:
        """``topic`` and ``group`` as brokers know them."""
        self._ask = ask
        self._queue = queue
        self._topic = topic
        self._group = group

    async def first_at(self, time_ms: int) -> int | None:
        """The first offset stored at or after a time; None when all that is there is older.

        A broker answers with the message nearest to the time, or near it: what it says is where
        the search begins.
        """
        header = QueueRequest(
            topic=self._topic, queue_id=self._queue.queue_id, bname=self._queue.broker_name
        )
        low = await self._offset(RequestCode.GET_MIN_OFFSET, header)
        last = high = await self._offset(RequestCode.GET_MAX_OFFSET, header)
        guess = await self._offset(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            SearchOffsetRequest(
                topic=self._topic,
                queue_id=self._queue.queue_id,
                timestamp=time_ms,
                bname=self._queue.broker_name,
            ),
        )
        steps = 0
        while low < high:  # everything below low is older, what is at high or behind is not
            middle = (guess, guess + 1, guess - 1)[steps] if steps < 3 else (low + high) // 2
            steps += 1
            if not low <= middle < high:
                continue
            stored_ms = await self.stored_at(middle)
            if stored_ms is not None and stored_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low if low < last else None

    async def _offset(self, code: RequestCode, header: Record) -> int:
        return int((await self._ask(code, header)).header.offset)

    async def stored_at(self, offset: int) -> int | None:
        """When the first message at or behind an offset was stored; None where there is none, or
        the queue does not reach so far, or not so far back."""
        header = PullMessageRequest(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=self._queue.queue_id,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
            bname=self._queue.broker_name,
        )
        answer = await self._ask(RequestCode.PULL_MESSAGE, header, check=False)
        if answer.code != ResponseCode.SUCCESS:
            if answer.code in (
                ResponseCode.PULL_NOT_FOUND,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
                ResponseCode.PULL_OFFSET_MOVED,
            ):
                return None
            raise answer.error()
        try:
            messages, _read = read_messages(answer.body, self._queue.broker_name)
        except RecordError as error:
            raise ConfigError(
                f"the message at {self._queue} offset {offset} cannot be read: {error}"
            ) from error
        return messages[0].store_timestamp if messages else None
