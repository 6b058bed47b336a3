"""Name servers that an HTTP server tells (client.md §2.5)."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.cluster.address_server import AddressServer, address_server_url
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.name_servers import NameServers
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.client import RemotingClient

from ...sim import ManualClock


@pytest.mark.parametrize(
    ("given", "unit", "environment", "url"),
    [
        ("here", None, {}, "http://here:8080/rocketmq/nsaddr"),
        ("here:80", "u", {}, "http://here:80/rocketmq/nsaddr-u?nofix=1"),
        ("https://here/x", "u", {}, "https://here/x"),
        (
            None,
            None,
            {"ROCKETMQ_NAMESRV_DOMAIN": "env", "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP": "s"},
            "http://env:8080/rocketmq/s",
        ),
        ("here", None, {"ROCKETMQ_NAMESRV_DOMAIN": "env"}, "http://here:8080/rocketmq/nsaddr"),
        (None, "u", {}, None),
    ],
)
def test_where_to_ask(
    given: str | None, unit: str | None, environment: dict[str, str], url: str | None
) -> None:
    assert address_server_url(given, unit, environment) == url


@pytest.mark.parametrize("given", ["ftp://here", "file:///etc/passwd", "here/x", "a b"])
def test_where_nobody_can_be_asked(given: str) -> None:
    with pytest.raises(ConfigError, match="address server"):
        address_server_url(given, None, {})


def test_addresses_are_asked_for_again_and_kept_when_that_fails() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        servers = NameServers((), RemotingClient(clock=clock))
        answers = iter(["", "a:1;b:2\r\nrest", "<html>", "b:2;c:3\n"])
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def fetch(url: str) -> str:
            assert url == "http://u"
            loop.call_soon_threadsafe(asked.set)
            return next(answers)

        with pytest.raises(ConnectError, match="no name server is known"):
            await servers.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, timeout=1)
        address_server = AddressServer("http://u", servers, clock, fetch=fetch)
        await address_server.look_up()
        assert servers.addresses == []
        running = asyncio.create_task(address_server.run())
        expected: list[tuple[float, set[str], str]] = [
            (10, {"a:1", "b:2"}, ""), (120, {"a:1", "b:2"}, "b:2"), (120, {"b:2", "c:3"}, "b:2"),
        ]  # fmt: skip
        for seconds, addresses, current in expected:
            while not clock._sleepers:
                await asyncio.sleep(0)
            if current:
                servers._current = servers.addresses.index(current)
            asked.clear()
            clock.advance(seconds)
            await asked.wait()
            while not clock._sleepers:
                await asyncio.sleep(0)
            assert set(servers.addresses) == addresses
            if current:
                assert servers.current == current  # who is asked at present stays
        running.cancel()

    asyncio.run(scenario())


def test_a_client_without_addresses_needs_an_address_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("ROCKETMQ_NAMESRV_DOMAIN", raising=False)

    async def scenario() -> None:
        with pytest.raises(ConfigError, match="no name server is known"):
            ClientInstance()
        assert ClientInstance(address_server="here").name_servers.addresses == []
        assert ClientInstance(namesrv="a:1", address_server="here").name_servers.addresses == [
            "a:1"
        ]
        monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", "there")
        assert ClientInstance().name_servers.addresses == []

    asyncio.run(scenario())
