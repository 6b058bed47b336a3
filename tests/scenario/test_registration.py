"""A broker's registration with real name servers: all of them know it and its topics soon, whatever
happens to them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from aiorocketmq.broker.registry.address_server import BrokerAddressServer
from aiorocketmq.broker.registry.name_servers import NameServers
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerResponse
from aiorocketmq.remoting.transport.client import RemotingClient

from .registration_world import WHO, RunningNameServer, World, play, running


@pytest.mark.parametrize("leaves_as", [0, 1], ids=["as it came", "as a slave"])
def test_all_name_servers_know_the_broker_and_forget_it_when_it_leaves(
    tmp_path: Path, leaves_as: int
) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            for server in servers:
                await world.until(partial(world.knows, server.address, "TBW102"))
            assert all(link.registered for link in world.name_servers.links)
            world.name_servers.identity = lambda: WHO._replace(broker_id=leaves_as)
        async with RemotingClient(clock=world.clock) as client:
            world.client = client
            for server in servers:
                assert not await world.knows(server.address, "TBW102")

    play(tmp_path, 2, scenario)


def test_both_of_two_brokers_with_one_name_and_id_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        async with running(world), RemotingClient(clock=world.clock) as client:
            await world.until(lambda: world.name_servers.links[0].registered)
            other = WHO._replace(broker_addr="127.0.0.1:20911")
            second = NameServers(world.config, world.topics, client, world.clock, lambda: other)
            service = asyncio.create_task(second.run())
            says = f"says: two brokers have the name b and the id 0, {WHO.broker_addr} and "
            says_too = f"says: two brokers have the name b and the id 0, {other.broker_addr} and "
            await world.until(lambda: says in caplog.text and says_too in caplog.text)
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

    play(tmp_path, 1, scenario)


def test_a_name_server_that_is_not_there_keeps_nobody_waiting_for_the_other(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        await servers[0].stop()
        async with running(world):
            await world.until(lambda: world.name_servers.links[1].registered)
            topic = world.topics.update(TopicConfig(topic_name="T"))
            await world.name_servers.announce(topic)
            assert await world.knows(servers[1].address, "T")
            assert not world.name_servers.links[0].registered
            await servers[0].start()
            await world.until(lambda: world.knows(servers[0].address, "T"))

    play(tmp_path, 2, scenario)


def test_a_name_server_that_was_restarted_is_told_again_at_once(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            await world.until(lambda: world.knows(servers[0].address, "TBW102"))
            await servers[0].stop()
            await servers[0].start()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), limit=9.0)

    play(tmp_path, 1, scenario)


def test_who_looks_for_its_master_is_answered_before_the_period_is_over(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        answers: list[RegisterBrokerResponse] = []
        world.name_servers.on_answer.append(answers.append)
        async with running(world):
            await world.until(lambda: len(answers) == 1)
            world.name_servers.register_soon()
            world.name_servers.register_soon()
            await world.until(lambda: len(answers) == 2, step=0.0)  # the clock stands still
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert len(answers) == 2

    play(tmp_path, 1, scenario)


def test_who_does_not_know_yet_what_it_is_is_not_registered(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        sent = world.registrations()
        world.name_servers.wait_for_identity()
        async with running(world):
            for _ in range(20):
                world.clock.advance(5)
                await asyncio.sleep(0.001)
            assert not sent
            world.name_servers.has_identity()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), step=0.0)
            sent.clear()
            world.name_servers.has_identity()  # another one
            await world.until(lambda: len(sent) == 1, step=0.0)

    play(tmp_path, 1, scenario)


def test_who_ends_before_it_knows_what_it_is_has_nothing_to_take_back(tmp_path: Path) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        world.name_servers.wait_for_identity()
        async with running(world) as service:
            await asyncio.sleep(0.001)
        assert service.cancelled()

    play(tmp_path, 1, scenario)


def test_another_identity_is_told_at_once_also_to_who_did_not_answer(tmp_path: Path) -> None:
    """The next attempt may not be due for half a minute."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        await servers[0].stop()
        link = world.name_servers.links[0]
        async with running(world):
            await world.until(lambda: link._failures >= 5)
            await servers[0].start()
            world.client.try_again(servers[0].address)
            world.name_servers.has_identity()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), step=0.0)

    play(tmp_path, 1, scenario)


def test_no_name_server_is_no_error(tmp_path: Path) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        async with running(world) as service:
            await world.name_servers.announce(world.topics.update(TopicConfig(topic_name="T")))
            world.name_servers.register_soon()
            await asyncio.sleep(0)
            assert not service.done()

    play(tmp_path, 0, scenario)


def test_name_servers_may_change_while_the_broker_runs(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        first, second = servers
        world.name_servers.use(first.address)
        async with running(world):
            await world.until(lambda: world.knows(first.address, "TBW102"))
            kept = world.name_servers.links[0]
            world.name_servers.use(f"{first.address};{second.address}")
            await world.until(lambda: world.knows(second.address, "TBW102"))
            assert world.name_servers.links[0] is kept
            world.name_servers.use(second.address)

            async def forgotten() -> bool:
                return not await world.knows(first.address, "TBW102")

            await world.until(forgotten)
            assert await world.knows(second.address, "TBW102")

    play(tmp_path, 2, scenario)


def test_an_address_server_tells_the_name_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        told: list[str | Exception] = [
            OSError("nobody there"),
            "",
            f"{servers[0].address}\r\n",
            "<html><body>Moved</body></html>",
            servers[1].address,
        ]
        asked: list[str] = []

        def fetch(url: str) -> str:
            asked.append(url)
            answer = told.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        world.config.namesrv_addr = None
        world.config.namesrv_domain = "here"
        world.config.fetch_namesrv_addr_by_address_server = True
        world.name_servers.use(None)
        service = BrokerAddressServer(world.config, world.name_servers, world.clock, fetch=fetch)
        async with running(world):
            assert [await service.look_up() for _ in range(2)] == [False, False]
            assert world.name_servers.links == []
            assert await service.look_up()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"))
            assert not await service.look_up()
            assert [link.address for link in world.name_servers.links] == [servers[0].address]
            assert await service.look_up()
            await world.until(lambda: world.knows(servers[1].address, "TBW102"))
            assert set(asked) == {"http://here:8080/rocketmq/nsaddr"}
            world.config.namesrv_addr = servers[
                0
            ].address  # configured now: nobody is asked any more
            assert await service.look_up()
            assert len(asked) == 5

    play(tmp_path, 2, scenario)
