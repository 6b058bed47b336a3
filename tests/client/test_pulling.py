import pytest

from aiorocketmq.client.pulling import read_pulled
from aiorocketmq.remoting.invocations import Response
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageResponse
from aiorocketmq.remoting.protocol.message_id import pack_host
from aiorocketmq.remoting.protocol.record import encode_record
from aiorocketmq.remoting.protocol.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.wire import to_fields

HOST = pack_host("127.0.0.1", 10911)


def record(number: int) -> bytes:
    return encode_record(
        "T", 0, b"body", b"", queue_offset=number, phy_offset=number * 100, sys_flag=0, born_timestamp=1, born_host=HOST,
        store_timestamp=2, store_host=HOST,
    )  # fmt: skip


def pulled(body: bytes) -> Response:
    header = PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=3, min_offset=0, max_offset=3)
    return Response.of(RemotingCommand(code=0, flag=1, ext_fields=to_fields(header)), body, RequestCode.PULL_MESSAGE)


def test_messages_that_cannot_be_read_are_passed_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    whole = [record(n) for n in range(3)]
    assert len(read_pulled(pulled(b"".join(whole)), "h:1", "b").messages) == 3
    assert caplog.records == []
    broken = whole[0] + bytes(4) + whole[1][4:] + whole[2]
    found = read_pulled(pulled(broken), "h:1", "b")
    assert ([m.queue_offset for m in found.messages], found.next_offset) == ([0], 3)
    [line] = caplog.records
    assert f"bytes={len(whole[1]) + len(whole[2])} broker=h:1" in line.getMessage()
