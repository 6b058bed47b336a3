"""Everything that was said to the original name server is said to ours, in order: the answers must
be the same."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from aiorocketmq.namesrv.processors import (
    BrokerProcessor,
    ConfigProcessor,
    KvConfigProcessor,
    RouteProcessor,
)
from aiorocketmq.namesrv.route_table import RouteTable
from aiorocketmq.namesrv.saved_file import SavedFile
from aiorocketmq.remoting.dispatch import Context, Handler, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, decode_header
from aiorocketmq.remoting.protocol.java_properties import parse_properties
from aiorocketmq.remoting.protocol.wire import from_fields, to_fields
from aiorocketmq.remoting.sliced_requests import SlicedRequests
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits
from tests.golden_files import golden_lines
from tests.sim import ManualClock

OVERTOOK = {("rocketmq-wire", 698), ("rocketmq-wire", 889)}
"""Route queries (by opaque) that the original's threads answered before a registration that had
come 2 and 29 ms earlier."""


class _Peer(NamedTuple):
    peer: int
    closed: bool = False


def conversation(name: str) -> Iterator[tuple[dict[str, Any], RemotingCommand, bytes]]:
    for line in golden_lines(name):
        if line["peer"] == "namesrv":
            ((serialize_type, header, body),) = FrameDecoder().feed(bytes.fromhex(line["hex"]))
            yield line, decode_header(serialize_type, header), bytes(body)


def handlers(tmp_path: Path) -> dict[RequestCode, Handler]:
    routes, config = RouteTable(), NamesrvConfig(config_store_path=str(tmp_path / "ns.conf"))
    kv_config = KvConfig(
        {ORDER_TOPIC_CONFIG: {"GoldOrder": "broker-g:4"}}
    )  # kept from a run before the captured one
    brokers = BrokerProcessor(routes, kv_config, Limits(), ManualClock())
    asked = RouteProcessor(routes, kv_config, config)
    for each in (brokers, asked):
        each._sliced = SlicedRequests(lambda: 0.0)  # nothing takes any time, or is put off
    parts = (
        brokers,
        asked,
        KvConfigProcessor(kv_config, SavedFile(str(tmp_path / "kv.json"), kv_config.to_json)),
        ConfigProcessor(config, {}, lambda: config.listen_port),
    )
    return {code: handler for part in parts for code, handler in part.table.items()}


async def call(
    handler: Handler, line: dict[str, Any], command: RemotingCommand, body: bytes
) -> Reply:
    request = from_fields(COMMANDS[RequestCode(command.code)].request, command.ext_fields or {})
    connection = cast(Connection, _Peer(line["conn"]))
    now_ms = int(line["t"] * 1000)
    ctx = Context(
        request,
        command.code,
        command.opaque,
        command.flag,
        command.version,
        now_ms,
        connection,
        0,
        b"",
    )
    reply: Any = handler(request, memoryview(body), ctx)
    return cast(Reply, await reply if inspect.isawaitable(reply) else reply)


def comparable(code: int, body: bytes) -> object:
    """Bodies whose order means nothing are compared without it, the others byte for byte."""
    if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
        return sorted(json.loads(body)["topicList"])
    if code == RequestCode.GET_NAMESRV_CONFIG:
        names = {found.name for found in parse_properties(body.decode())}
        return sorted(names - {"bindAddress", "fileMode", "maxTopics"})
    return body


@pytest.mark.parametrize("capture", ["json-wire", "rocketmq-wire", "v6-wire"])
def test_the_answers_are_those_of_the_original(capture: str, tmp_path: Path) -> None:
    async def replay() -> int:
        table, answers, compared = handlers(tmp_path), {}, 0
        for line, command, body in conversation(capture):
            exchange = line["conn"], line["opaque"]
            if line["kind"] != "resp":
                answers[exchange] = (
                    command.code,
                    await call(table[RequestCode(command.code)], line, command, body),
                )
                continue
            code, reply = answers.pop(exchange)
            if (capture, line["opaque"]) in OVERTOOK:
                continue
            what = f"{RequestCode(code).name} in step {line['step']}"
            fields = None if reply.header is None else to_fields(reply.header)
            assert (reply.code, reply.remark) == (command.code, command.remark), what
            assert (fields or {}) == (command.ext_fields or {}), what
            assert comparable(code, bytes(reply.body)) == comparable(code, body), what
            compared += 1
        return compared

    assert asyncio.run(replay()) >= 6
