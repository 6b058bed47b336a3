"""What the driver decides about a batch, and what becomes of that when it is repeated. Brokers are
functions; Spark is not there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.loop_thread import LoopThread
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.responses import Response
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.sink.exactly_once import send_batch
from aiorocketmq.spark_connector.sink.sink_options import SinkOptions, parse_sink_options
from aiorocketmq.spark_connector.sink.staging import StagedTask

from ...sim import ManualClock
from .test_sink import _Masters
from .test_staging import chunk, stage

BROKERS = {"a": "T", "b": "U"}
"""Each has a topic of its own, of one queue."""


class World:
    """``away`` brokers cannot be connected to; one comes back when it was asked so often."""

    def __init__(self) -> None:
        self.away: dict[str, int] = {}
        self.stored: Counter[str] = Counter()
        """Rows by topic."""

    async def instance(self) -> ClientInstance:
        clock = ManualClock()
        made = ClientInstance(namesrv="ns:1", clock=clock)
        made.remoting = self  # type: ignore[assignment]
        made.masters = _Masters(clock)  # type: ignore[assignment]
        made._state = "running"
        for name, topic in BROKERS.items():
            queue = QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            data = BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"{name}:1"})
            made.routes._store(
                topic_route(topic, TopicRouteData(queue_datas=[queue], broker_datas=[data]))
            )
        return made

    async def invoke(
        self, address: str, code: RequestCode, header: Any, body: bytes = b"", *, timeout: float
    ) -> Response:
        await asyncio.sleep(0)
        if (tries := self.away.get(address[0], 0)) > 0:
            self.away[address[0]] = tries - 1
            raise ConnectError(f"{address} is away")
        if code == RequestCode.SEND_SEQUENCE_HELLO:
            fields = {"expiresMs": "1000", "nowMs": "5"}
        else:
            self.stored[header.topic] += 1
            fields = {"msgId": "X", "queueId": "0", "queueOffset": "7", "sequence": "new"}
        answer = RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields)
        return Response.of(answer, b"", code)

    def back_off(self, _address: str) -> float:
        return 0.0

    def invoke_template(self, *_: object) -> None:
        """There is no connection yet."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    instance = LoopThread.shared().run(made.instance())
    monkeypatch.setattr(BrokerAccess, "instance", lambda _: instance)
    yield made
    instance._state = "stopped"


@pytest.fixture
def options(tmp_path: Path) -> SinkOptions:
    given = {"namesrv": "ns:1", "guarantee": "exactly_once", "stagingLocation": str(tmp_path)}
    return parse_sink_options({**given, "deliveryTimeout": "10s"}, {})


def staged(location: Path, *topics: str, batch: int = 0) -> StagedTask:
    """A chunk for any queue of each topic."""
    folder = location / "w" / str(batch)
    return stage(folder, "part-0", *(chunk(topic=topic) for topic in topics)).task


def test_a_topic_none_of_whose_brokers_answers_is_waited_for(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    world.away["b"] = 3
    assert send_batch(options, "w", 0, [staged(tmp_path, "T", "U")]) == 2
    assert world.stored == {"T": 1, "U": 1}


def test_one_id_is_for_one_write(world: World, options: SinkOptions, tmp_path: Path) -> None:
    """As two writes of one ``foreachBatch``: the second one is none that is repeated."""
    named = replace(options, write_id="w")
    assert send_batch(named, "w", 0, [staged(tmp_path, "T")]) == 1
    assert send_batch(named, "w", 0, [staged(tmp_path, "T")]) == 1, "a repetition"
    with pytest.raises(ConfigError, match=r"writeId 'w', batch 0: .* wrote to T, not to U"):
        send_batch(named, "w", 0, [staged(tmp_path, "U")])
    assert send_batch(named, "w", 1, [staged(tmp_path, "U", batch=1)]) == 1
    assert world.stored == {"T": 1, "U": 1}


def test_a_query_with_another_topic_has_its_batch_in_the_first_one(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Its checkpoint says that it is the same."""
    assert send_batch(options, "w", 0, [staged(tmp_path, "T")]) == 1
    assert send_batch(options, "w", 0, [staged(tmp_path, "U")]) == 1
    assert world.stored == {"T": 1}
