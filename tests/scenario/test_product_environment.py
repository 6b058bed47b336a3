"""``clusterTest``: two name servers in this process, the one under test asks the product
environment's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.client.cluster.address_server import LOOK_UP_AGAIN_S, LOOK_UP_PERIOD_S
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.namesrv.config import ClusterTestConfig, NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from aiorocketmq.namesrv.product_environment import ProductEnvironment
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import GetRouteInfoRequest, RegisterBrokerRequest
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient
from tests.sim import ManualClock


def config_of(folder: Path, **changes: Any) -> NamesrvConfig:
    paths: dict[str, Any] = {
        "kv_config_path": str(folder / "kv.json"),
        "config_store_path": str(folder / "namesrv.properties"),
    }
    return NamesrvConfig(listen_port=0, bind_address="127.0.0.1", **paths, **changes)


@asynccontextmanager
async def running(
    config: NamesrvConfig, kv_config: KvConfig | None = None, product: str = ""
) -> AsyncIterator[str]:
    """A name server; its address."""
    other = ClusterTestConfig(cluster_test_namesrv_addr=product)
    server = NameServer(config, kv_config=kv_config, cluster_test=other)
    await server.listen()
    task = asyncio.create_task(server.run())
    await asyncio.sleep(0)  # it serves before it can be stopped
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def register(client: RemotingClient, address: str, broker: str, topic: str) -> None:
    table = {topic: TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)}
    wrapper = TopicConfigTable(topic_config_table=table, data_version=DataVersion(counter=1))
    request = RegisterBrokerRequest(
        broker_name=broker,
        broker_addr=f"{broker}:1",
        cluster_name="C",
        ha_server_addr="",
        broker_id=0,
    )
    body = encode_body(RegisterBrokerBody(topic_config_table=wrapper))
    (await client.invoke(address, RequestCode.REGISTER_BROKER, request, body)).check()


async def ask(
    client: RemotingClient, address: str, topic: str, *, standard: bool | None = None
) -> Response:
    request = GetRouteInfoRequest(topic=topic, accept_standard_json_only=standard)
    return await client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, request)


def test_topics_that_are_not_known_here_are_looked_for_in_the_product_environment(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        orders = KvConfig({ORDER_TOPIC_CONFIG: {"Here": "test:4"}})
        async with RemotingClient() as client, running(config_of(tmp_path)) as product:
            config = config_of(tmp_path, cluster_test=True)
            async with running(config, orders, f"127.0.0.1:1;{product}") as under_test:
                await register(client, product, "product", "There")
                await register(client, product, "product", "Here")
                await register(client, under_test, "test", "Here")
                here = json.loads(
                    (await ask(client, under_test, "Here", standard=True)).check().body
                )
                assert [broker["brokerName"] for broker in here["brokerDatas"]] == ["test"]
                assert here["orderTopicConf"] == "test:4"  # whatever orderMessageEnable says
                there = json.loads(
                    (await ask(client, under_test, "There", standard=True)).check().body
                )
                assert [broker["brokerName"] for broker in there["brokerDatas"]] == ["product"]
                assert (await ask(client, under_test, "There")).body == (
                    await ask(client, product, "There")
                ).body
                nowhere = await ask(client, under_test, "Nowhere")
                assert nowhere.code == 17
                assert nowhere.remark == (await ask(client, product, "Nowhere")).remark
            async with running(config_of(tmp_path)) as ordinary:
                assert (await ask(client, ordinary, "There")).code == 17

    asyncio.run(scenario())


def test_a_product_environment_that_is_down_is_as_if_it_had_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = config_of(tmp_path, cluster_test=True)
        async with RemotingClient() as client, running(config, product="127.0.0.1:1") as under_test:
            assert (await ask(client, under_test, "T")).code == 17

    asyncio.run(scenario())


def test_the_address_server_tells_where_it_is_and_again_every_two_minutes(tmp_path: Path) -> None:
    clock, asked = ManualClock(), list[str]()
    told: list[str] = []

    def fetch(url: str) -> str:
        asked.append(url)
        if not told:
            raise OSError("unreachable")
        return told.pop()

    async def scenario() -> None:
        async with RemotingClient() as client, running(config_of(tmp_path)) as address:
            await register(client, address, "product", "T")
            product = ProductEnvironment(
                "daily", ClusterTestConfig(domain="here", domain_subgroup="x"), clock, fetch=fetch
            )
            task = asyncio.create_task(product.run())
            await looked_up(1)
            assert await product.route("T") is None
            told.append(f"{address}\r\nand nothing else\n")
            clock.advance(LOOK_UP_AGAIN_S)
            await looked_up(2)
            assert await product.route("T") is not None
            told.append("nonsense")
            clock.advance(LOOK_UP_PERIOD_S)
            await looked_up(3)
            assert await product.route("T") is not None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def looked_up(times: int) -> None:
        async with asyncio.timeout(10):
            while (
                len(asked) < times or len(clock._sleepers) < 2
            ):  # its house-keeping and its next look-up
                await asyncio.sleep(0.001)

    asyncio.run(scenario())
    assert set(asked) == {"http://here:8080/rocketmq/x-daily?nofix=1"}


def test_wrong_addresses_refuse_to_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must look like host:9876"):
        NameServer(
            config_of(tmp_path, cluster_test=True),
            cluster_test=ClusterTestConfig(cluster_test_namesrv_addr="nowhere"),
        )
