"""What a name server does on its own, in time that the test owns."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from aiorocketmq.client.cluster.lost_brokers import LOST_BROKERS
from aiorocketmq.daemon.launch import LaunchError, Settings
from aiorocketmq.daemon.persist import replace_file
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import (
    NAMESRV,
    ExpiryScan,
    KvConfigDump,
    NameServer,
    TidyUp,
    kept_in_file,
    load_kv_config,
)
from aiorocketmq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from aiorocketmq.namesrv.route_table import RouteTable
from aiorocketmq.remoting.clock import steady_ms
from aiorocketmq.remoting.dispatch import Context, Dispatcher
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from aiorocketmq.remoting.protocol.codes import VERSION
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.protocol.java_properties import Property
from aiorocketmq.remoting.slices import at_once
from tests.sim import ManualClock, SimOwner, connect, turns

REQUEST = RegisterBrokerRequest(
    broker_name="a", broker_addr="10.0.0.1:10911", cluster_name="C", ha_server_addr="", broker_id=0
)


def test_the_scan_removes_a_silent_broker_after_120_to_130_seconds_and_closes_its_connection() -> (
    None
):
    async def scenario() -> None:
        clock, routes = ManualClock(), RouteTable()
        connection, transport = connect(SimOwner(Dispatcher({}), clock=clock))
        scan = asyncio.get_running_loop().create_task(ExpiryScan(routes, clock).run())
        await turns()
        routes.register(REQUEST, DataVersion(), [], dict, connection, steady_ms(clock))
        for seconds in (5, *[10] * 11):  # to 115 s
            clock.advance(seconds)
            await turns()
        assert list(routes._live) == ["10.0.0.1:10911"]
        clock.advance(10)
        await turns()
        assert not routes._live
        assert transport.ended
        scan.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize("given", [[], [Property("rocketmqHome", "/home", "ns.conf")]])
def test_the_file_keeps_the_home_that_somebody_has_set(given: list[Property]) -> None:
    settings = Settings(NAMESRV.records, [*given, Property("mine", "1", "ns.conf")])
    kept = {each.name: each.value for each in given}
    assert kept_in_file(settings) == {"mine": "1", **kept}


def test_a_clock_that_is_put_forward_makes_no_broker_silent(tmp_path: Path) -> None:
    """Its last sign of life is told by the clock on the wall all the same."""

    async def scenario() -> None:
        clock = ManualClock()
        server = NameServer(
            NamesrvConfig(config_store_path=str(tmp_path / "namesrv.properties")), clock=clock
        )
        routes = server.brokers._routes
        scan = asyncio.get_running_loop().create_task(ExpiryScan(routes, clock).run())
        await turns()
        connection, _ = connect(SimOwner(Dispatcher({}), clock=clock))
        ctx = Context(REQUEST, 103, 1, 0, VERSION, clock.time_ms(), connection, 0, b"")
        at_once(server.brokers.register(REQUEST, b"", ctx))
        clock.put_forward(3600)
        clock.advance(5)
        await turns()
        assert list(routes._live) == ["10.0.0.1:10911"]
        last_ms = clock.time_ms() - 5000
        for _ in range(12):
            clock.advance(10)
            await turns()
        assert not routes._live
        assert routes.lost.value(LOST_BROKERS, "a") == str(last_ms)
        scan.cancel()

    asyncio.run(scenario())


def test_what_brokers_had_that_are_gone_is_given_back() -> None:
    async def scenario() -> None:
        clock, routes = ManualClock(), RouteTable()
        tidying = asyncio.get_running_loop().create_task(TidyUp(routes, clock).run())
        await turns()
        for connection in ("x", "y"):
            configs = {
                "T": TopicConfig(topic_name="T"),
                connection: TopicConfig(topic_name=connection),
            }
            routes.register(REQUEST, DataVersion(), [], lambda found=configs: found, connection, 0)  # type: ignore[misc]
            routes.disconnect(connection)
        assert len(routes._left) == 2
        clock.advance(1)
        await turns()
        assert not routes._left
        assert not routes._holders
        tidying.cancel()

    asyncio.run(scenario())


def test_the_kv_config_is_logged_after_a_minute_and_then_every_ten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        clock, kv_config = (
            ManualClock(),
            KvConfig({ORDER_TOPIC_CONFIG: {"T": "broker-a:4"}, "Empty": {}}),
        )
        dump = asyncio.get_running_loop().create_task(KvConfigDump(kv_config, clock).run())
        await turns()
        clock.advance(59)
        await turns()
        assert not caplog.messages
        clock.advance(1)
        await turns()
        assert caplog.messages == [
            "kv config namespace=ORDER_TOPIC_CONFIG keys=1 T=broker-a:4",
            "kv config namespace=Empty keys=0 ",
        ]
        kv_config.put("Empty", "k", "v")
        clock.advance(599)
        await turns()
        assert len(caplog.messages) == 2
        clock.advance(1)
        await turns()
        assert caplog.messages[3] == "kv config namespace=Empty keys=1 k=v"
        dump.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())


def test_kv_config_is_there_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    assert load_kv_config(str(path)).to_json() == '{"configTable":{}}'
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}')
    assert load_kv_config(str(path)).get(ORDER_TOPIC_CONFIG, "T") == "broker-a:4"


def test_a_kv_config_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{broken")
    with pytest.raises(LaunchError, match=r"kvConfig.json: not JSON: .*kvConfig.json.bak"):
        load_kv_config(str(path))


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_a_kv_config_that_is_gone_is_told(
    tmp_path: Path, left: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path, backup = tmp_path / "kvConfig.json", tmp_path / "kvConfig.json.bak"
    load_kv_config(str(path))
    assert not caplog.messages, "a new name server"
    backup.write_text('{"configTable":{}}')
    if left is not None:
        path.write_text(left)
    load_kv_config(str(path))
    [line] = caplog.messages
    assert ("is missing" if left is None else "is empty") in line
    assert "kvConfig.json.bak" in line
    replace_file(path, "new")
    assert backup.read_text() == '{"configTable":{}}'
