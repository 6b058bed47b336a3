"""The Spark source and messages that have rotted on a broker's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")

from aiorocketmq import Message, Producer
from aiorocketmq.spark_connector.access.errors import DamagedMessageError

from .cluster import Cluster, asynchronous, create_topic, until
from .test_replication import SMALL
from .test_rot import COUNT, LogFile, body
from .test_source_options import bodies


def test_a_damaged_message_comes_from_a_slave_or_fails_the_task(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker(**SMALL)
        asynchronous(lambda: create_topic(cluster.namesrv, "Rot", 1))()
        cluster.start_slave(**SMALL)
        slave = LogFile(cluster.store_of("broker-a-1"))
        everything = [body(number) for number in range(COUNT)]

        async def send() -> None:
            async with Producer("p", namesrv=cluster.namesrv) as producer:
                for each in everything:
                    await producer.send(Message("Rot", each))
            await until(lambda: slave.place_of(COUNT - 1) >= 0, "the slave has all messages")

        asynchronous(send)()
        LogFile(cluster.store_of("broker-a")).flip(
            12, 4
        )  # its magic: the broker sees that at every pull
        assert bodies(cluster, "Rot") == everything
        cluster.kill_broker("broker-a-1")
        with pytest.raises(
            DamagedMessageError, match=r"Rot/broker-a/0 \[0, 30\): 1 of the messages .* are damaged"
        ):
            bodies(cluster, "Rot")
        assert bodies(cluster, "Rot", failOnDamage="false") == everything[:12] + everything[13:]
