"""How a member reads the headers of others."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.broker.raft.network import SERVED, read_header
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import decode_header

from ...sim import SimOwner, connect, receive

JAVA = (
    b'{"code":51001,"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",'
    b'"version":409}'
)


@pytest.mark.parametrize(
    ("header", "short"),
    [
        (JAVA, True),
        (b'{"opaque":7,"code":51001}', True),
        (JAVA.replace(b'"flag":0', b'"flag":1'), False),
        (JAVA.replace(b"51001", b"51003"), False),
        (JAVA.replace(b"51001", b'"51001"'), False),
        (JAVA.replace(b"409}", b'409,"extFields":{}}'), False),
        (JAVA.replace(b"JAVA", b"J" * 500), False),
        (JAVA.replace(b"409}", b"4294967296}"), False),
        (JAVA[:-1], False),
        (b"\xff", False),
        (b"[" * 500, False),
    ],
)
def test_only_what_all_members_write_is_read_the_short_way(header: bytes, short: bool) -> None:
    async def main() -> None:
        connection, _ = connect(SimOwner(Dispatcher({})))
        assert read_header(1, header, 5, connection) is None
        found = read_header(0, header, 5, connection)
        assert (found is not None) == short
        if found is not None:
            general = decode_header(0, header)
            assert (found.code, found.opaque, found.flag, found.version) == (
                general.code,
                general.opaque,
                general.flag,
                general.version,
            )
            assert (found.received_at_ms, found.raw_header) == (5, header)

    asyncio.run(main())


def test_both_ways_end_at_the_same_handler() -> None:
    async def main() -> None:
        asked: list[int] = []

        def answer(_request: object, _body: object, ctx: object) -> Reply:
            asked.append(1)
            return Reply(200, body=b"{}")

        table = dict.fromkeys(SERVED, answer)
        connection, transport = connect(SimOwner(Dispatcher(table, read=read_header)))
        for header in (JAVA, JAVA.replace(b"409}", b'409,"extFields":{}}')):
            receive(connection, encode_frame(0, header, b"{}"))
        assert len(asked) == 2
        receive(connection, encode_frame(0, JAVA.replace(b"51001", b"51003"), b"{}"))
        connection.flush()
        assert b"request type 51003 not supported" in transport.written
        assert RequestCode.DLEDGER_VOTE in SERVED

    asyncio.run(main())
