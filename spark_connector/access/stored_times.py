"""When the messages of one queue were stored, by its broker's clock: a broker tells the offset of a
time only roughly, and the time of an offset only with the message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ...client.errors import ConfigError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.offset import QueueRequest, SearchOffsetRequest
from ...remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record import RecordError, read_messages
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response

__all__ = ["Stored", "StoredTimes"]

_SENT_ON: Final = (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
_NOTHING_THERE: Final = (ResponseCode.PULL_NOT_FOUND, *_SENT_ON)


class Stored(NamedTuple):
    """A message, by when it was stored."""

    queue_offset: int
    time_ms: int


class StoredTimes:
    """One queue; ``queue`` as its broker names it. Everything raises what ``ask`` raises, and
    ``BrokerError``."""

    def __init__(
        self,
        ask: Callable[[RequestCode, Record], Awaitable[Response]],
        queue: MessageQueue,
        group: str,
    ) -> None:
        """``group``: in whose name messages are pulled."""
        self._ask = ask
        self._queue = queue
        self._group = group

    async def first_at(self, time_ms: int) -> int | None:
        """The first offset stored at or after a time, ``None`` when all that is there is older.
        Raises ``ConfigError`` for a message that cannot be read.

        A broker answers with the message nearest to the time, or near it: what it says is where
        the search begins.
        """
        topic, broker_name, queue_id = self._queue
        header = QueueRequest(topic=topic, queue_id=queue_id, bname=broker_name)
        low = await self._offset(RequestCode.GET_MIN_OFFSET, header)
        high = await self._offset(RequestCode.GET_MAX_OFFSET, header)
        guess = await self._offset(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            SearchOffsetRequest(
                topic=topic, queue_id=queue_id, timestamp=time_ms, bname=broker_name
            ),
        )
        last, steps = high, 0
        while low < high:  # everything below low is older, what is at high or behind is not
            middle = (guess, guess + 1, guess - 1)[steps] if steps < 3 else (low + high) // 2
            steps += 1
            if not low <= middle < high:
                continue
            try:
                stored = await self.stored_at(middle)
            except RecordError as error:
                raise ConfigError(
                    f"the message at {self._queue} offset {middle} cannot be read: {error}"
                ) from error
            if stored is not None and stored.time_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low if low < last else None

    async def stored_at(self, offset: int) -> Stored | None:
        """The first message at or behind an offset; ``None`` where there is none, or the offset
        lies before the oldest. Raises ``RecordError`` when it cannot be read.

        A broker that has lost what lies there (its file is gone, or it is damaged) says where to
        go on.
        """
        while True:
            answer = await self._pulled(offset)
            if answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY:
                break
            if (go_on := int(answer.header.next_begin_offset)) <= offset:
                break
            offset = go_on
        if answer.code in _NOTHING_THERE:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise answer.error()
        messages, _read = read_messages(answer.body, self._queue.broker_name)
        return Stored(messages[0].queue_offset, messages[0].store_timestamp) if messages else None

    async def is_gone(self, offset: int) -> bool:
        """There was a message at this offset, and it is not kept any more: the broker sends on
        whoever asks for it.

        The oldest offset does not tell it: RocketMQ 4 leaves that where it was when all of a queue
        is gone.
        """
        answer = await self._pulled(offset)
        return answer.code in _SENT_ON and int(answer.header.next_begin_offset) > offset

    async def _pulled(self, offset: int) -> Response:
        topic, broker_name, queue_id = self._queue
        header = PullMessageRequest(
            consumer_group=self._group,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
            bname=broker_name,
        )
        return await self._ask(RequestCode.PULL_MESSAGE, header)

    async def _offset(self, code: RequestCode, header: Record) -> int:
        return int((await self._ask(code, header)).check().header.offset)
