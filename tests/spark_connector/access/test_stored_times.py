"""The first message of a time is found beside messages that are gone."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.spark_connector.access.stored_times import StoredTimes

from ..stored_records import Stored

END = 100


def queue_without(gone: range, oldest: int = 0) -> StoredTimes:
    """Message n was stored at n; those that are gone still have their places in the queue, those
    before the oldest have none."""

    async def ask(code: RequestCode, header: Record) -> Response:
        body, answer, fields = b"", ResponseCode.SUCCESS, {"offset": "0"}
        if code == RequestCode.GET_MAX_OFFSET:
            fields = {"offset": str(END)}
        elif isinstance(header, PullMessageRequest):
            at = header.queue_offset
            following = gone.stop if at in gone else at + 1
            if not oldest <= at <= END:
                answer, following = ResponseCode.PULL_OFFSET_MOVED, min(max(oldest, at), END)
            elif at in gone:
                answer = ResponseCode.PULL_RETRY_IMMEDIATELY
            elif at >= END:
                answer, following = ResponseCode.PULL_NOT_FOUND, END
            else:
                body = Stored(queue_offset=at, store_timestamp=at).encode()
            fields = {
                "suggestWhichBrokerId": "0", "nextBeginOffset": str(following),
                "minOffset": "0", "maxOffset": str(END),
            }  # fmt: skip
        command = RemotingCommand(code=answer, opaque=1, flag=1, ext_fields=fields)
        return Response.of(command, body, code)

    return StoredTimes(ask, MessageQueue("T", "a", 0), "g")


@pytest.mark.parametrize(
    ("gone", "time_ms", "first"),
    [
        (range(0), 70, 70),
        (range(60), 70, 70),
        (range(40, 60), 70, 70),
        (range(40, 60), 20, 20),
        (range(40, 60), 50, 40),
        (range(40, END), 50, 40),
        (range(0), END, None),
    ],
)
def test_the_first_of_a_time(gone: range, time_ms: int, first: int | None) -> None:
    """All that is not there would be taken for newer, and with it what lies behind."""
    assert asyncio.run(queue_without(gone).first_at(time_ms)) == first


@pytest.mark.parametrize(
    ("gone", "oldest", "offset", "is_gone"),
    [
        (range(40, 60), 0, 39, False),
        (range(40, 60), 0, 59, True),
        (range(END), 0, END - 1, True),
        (range(0), END, END - 1, True),
        (range(0), 50, 50, False),
        (range(0), END, END, False),
        (range(0), END, END + 5, False),
    ],
)
def test_a_message_that_is_not_kept_is_none_that_never_was(
    gone: range, oldest: int, offset: int, is_gone: bool
) -> None:
    """A broker of RocketMQ 4 leaves the oldest offset where it was when all is gone."""
    assert asyncio.run(queue_without(gone, oldest).is_gone(offset)) is is_gone
