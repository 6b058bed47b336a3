"""mqadmin, as a process, on a cluster of two brokers; then one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from .cluster import Cluster


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Tool:
    """Runs command lines against one cluster, in a directory of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._environment = {**os.environ, "NAMESRV_ADDR": cluster.namesrv, "ROCKETMQ_HOME": str(folder)}
        self._folder = folder

    def __call__(self, line: str) -> Printed:
        command = [sys.executable, "-m", "aiorocketmq.tools.mqadmin", *line.split()]
        done = subprocess.run(command, env=self._environment, cwd=self._folder, capture_output=True, text=True, check=False)
        return Printed(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("two")) as cluster:
        cluster.start_broker("broker-a")
        cluster.start_broker("broker-b")
        yield cluster


def test_two_brokers_and_then_one(two: Cluster, tmp_path: Path) -> None:
    mqadmin = Tool(two, tmp_path)
    a, b = two.brokers["broker-a"].address, two.brokers["broker-b"].address
    made = mqadmin("updateTopic -c DefaultCluster -t Orders -r 2 -w 2 -o true")
    assert made.out.startswith(
        f"create topic to {a} success.\ncreate topic to {b} success.\n"
        "set cluster orderConf. isOrder=true, orderConf=[broker-a:2;broker-b:2]TopicConfig [topicName=Orders"
    )
    status = json.loads(mqadmin("topicStatus -t Orders --json").out)
    assert [(row["brokerName"], row["qid"]) for row in status] == [(f"broker-{x}", n) for x in "ab" for n in (0, 1)]
    route = mqadmin("topicRoute -lt Orders").out.splitlines()
    assert route[-1].split() == ["Total:", "2", "4", "4"]

    assert mqadmin("exportMetadata -c DefaultCluster -t -f out").out == "export out/topic.json success\n"
    exported = json.loads((tmp_path / "out" / "topic.json").read_text())["topicConfigTable"]["Orders"]
    assert (exported["readQueueNums"], exported["writeQueueNums"]) == (4, 4), "added up"

    assert mqadmin(f"updateTopicPerm -b {a} -t Orders -p 4").code == 0
    assert mqadmin("updateTopicPerm -c DefaultCluster -t Orders -p 4").out == (
        f"new perm equals to the old one!\nupdate topic perm from 6 to 4 in {b} success.\n"
    )

    two.kill_broker("broker-b")
    changed = mqadmin("updateBrokerConfig -c DefaultCluster -k flushDelayOffsetInterval -v 9000")
    assert changed.out == f"update broker config success, {a}\n"
    if changed.code:  # otherwise the name server had noticed before we asked
        problem = f"cannot connect to {b}: connection refused (nothing listens there)"
        assert changed.err == f"mqadmin updateBrokerConfig: {problem}\n"
    listed = mqadmin("clusterList").out.splitlines()
    assert listed[1].split()[1:4] == ["broker-a", "0", a]
    assert mqadmin("wipeWritePerm -b broker-a").out.startswith(
        f"wipe write perm of broker[broker-a] in name server[{two.namesrv}] OK, "
    )
    refused = mqadmin("sendMessage -t Orders -p x")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)


def test_everything_down(tmp_path: Path) -> None:
    with Cluster(tmp_path / "gone") as gone:
        mqadmin = Tool(gone, tmp_path)
    printed = mqadmin("clusterList")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("mqadmin clusterList: no name server answers; ")
    assert printed.err.count("\n") == 1
    assert mqadmin("clusterList --compat-exit").code == 0
