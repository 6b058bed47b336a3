"""How far a stream of Spark is, as ``mqadmin consumerProgress`` shows it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")

from aiorocketmq import Admin

from .cluster import Cluster, until
from .test_mqadmin import Tool
from .test_source_coverage import next_batch, stream
from .test_source_options import fill, filled


async def is_known(cluster: Cluster, group: str) -> bool:
    async with Admin(namesrv=cluster.namesrv) as admin:
        return bool((await admin.consume_stats(group)).offset_table)


def test_the_lag_of_a_stream_is_shown(
    shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    mqadmin = Tool(shared, tmp_path)
    asked = f"consumerProgress -g {group} --json"
    filled(shared, topic, 40, queues=2)
    reader = stream(shared, topic, commitOffsetsToGroup="true", consumerGroup=group)
    end, found = next_batch(reader, reader.initialOffset())
    assert len(found) == 40
    reader.commit(end)
    asyncio.run(until(lambda: is_known(shared, group), "name servers know the group"))
    asyncio.run(fill(shared, topic, 5, start=40, queues=2))
    shown = mqadmin(asked)
    assert shown.code == 0, shown.err
    progress = json.loads(shown.out)
    assert progress["diffTotal"] == 5
    text = mqadmin(f"consumerProgress -g {group}").out
    assert [line.split()[:5] for line in text.splitlines() if line.startswith(topic)] == [
        [topic, "broker-a", "0", "23", "20"],
        [topic, "broker-a", "1", "22", "20"],
    ]
    assert group in mqadmin("consumerProgress").out, "and in the list of all groups"
