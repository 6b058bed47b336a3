"""mqadmin on clusters of several daemons: two masters of which one dies, a master and its slave,
nothing at all."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from aiorocketmq.tools.mqadmin.__main__ import run

from ..kept_logging import logging_as_before
from ..tools.golden_steps import step
from .cluster import Cluster
from .test_client_tls import SecureCluster


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Tool:
    """Runs command lines against one cluster, in this process: starting one takes longer than most
    commands."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._environment = {
            "NAMESRV_ADDR": cluster.namesrv,
            "ROCKETMQ_HOME": str(folder),
            "MQADMIN_WAIT": "0",
        }

    def __call__(self, line: str) -> Printed:
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self._environment),
            redirect_stdout(out),
            redirect_stderr(err),
            logging_as_before(),
        ):
            code = run(line.split())
        return Printed(code, out.getvalue(), err.getvalue())


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
        "set cluster orderConf. isOrder=true, orderConf=[broker-a:2;broker-b:2]TopicConfig "
        "[topicName=Orders"
    )
    status = json.loads(mqadmin("topicStatus -t Orders --json").out)
    assert [(row["brokerName"], row["qid"]) for row in status] == [
        (f"broker-{x}", n) for x in "ab" for n in (0, 1)
    ]
    route = mqadmin("topicRoute -lt Orders").out.splitlines()
    assert route[-1].split() == ["Total:", "2", "4", "4"]

    assert (
        mqadmin(f"exportMetadata -c DefaultCluster -t -f {tmp_path}").out
        == f"export {tmp_path}/topic.json success\n"
    )
    exported = json.loads((tmp_path / "topic.json").read_text())["topicConfigTable"]["Orders"]
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


def test_a_master_and_its_slave(tmp_path: Path) -> None:
    """Named as in the golden material; both keep an access control list."""
    for name in ("broker-g", "slave-g"):
        accounts = tmp_path / name / "conf" / "plain_acl.yml"
        accounts.parent.mkdir(parents=True)
        accounts.write_text("globalWhiteRemoteAddresses: [127.0.0.1]\naccounts: []\n")
    with Cluster(tmp_path) as cluster:
        master = cluster.start_broker("broker-g", aclEnable="true").address
        slave = cluster.start_broker(
            "slave-g", brokerName="broker-g", brokerRole="SLAVE", brokerId=1, aclEnable="true"
        ).address
        mqadmin = Tool(cluster, tmp_path)

        def golden(text: str) -> str:
            return text.replace(master, "127.0.0.1:27811").replace(slave, "127.0.0.1:27911")

        mqadmin(f"updateTopic -b {master} -t GoldNormal -r 4 -w 4")
        assert golden(mqadmin("topicRoute -t GoldNormal").out) == step("topicRoute -t GoldNormal")
        figures = re.compile(r" +\d+\.\d\d(?=\()|\d+ms| +\d+ +\d+\.\d\d \d\.\d{4}$", re.MULTILINE)
        assert figures.sub("#", golden(mqadmin("clusterList").out)) == figures.sub(
            "#", step("clusterList")
        )
        assert golden(mqadmin("clusterList -m").out) == step("clusterList -m")
        titles = re.findall(r"=+.*=+\n", mqadmin("getBrokerConfig -c DefaultCluster").out)
        line = "=" * 12
        assert titles == [
            f"{line}Master: {master}{line}\n",
            f"{line}My Master: {master}=====Slave: {slave}{line}\n",
        ]
        status = mqadmin("brokerStatus -c DefaultCluster").out.splitlines()
        assert {each.split()[0] for each in status} == {master, slave}
        assert mqadmin("updateAclConfig -c DefaultCluster -a an-account -s a-secret").out == (
            f"create or update plain access config to {master} success.\n"
            f"create or update plain access config to {slave} success.\n"
            "PlainAccessConfig [accessKey=an-account, whiteRemoteAddress=null, admin=false, "
            "defaultTopicPerm=null, "
            "defaultGroupPerm=null, topicPerms=[], groupPerms=[]]"
        )
        assert mqadmin(f"exportConfigs -c DefaultCluster -f {tmp_path}").code == 0
        exported = json.loads((tmp_path / "configs.json").read_text())
        assert exported["clusterScale"] == {
            "namesrvSize": 1,
            "slaveBrokerSize": 1,
            "masterBrokerSize": 1,
        }
        refused = mqadmin(f"updateTopic -b {slave} -t OnSlave")
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert "slave" in refused.err
        assert mqadmin("cleanExpiredCQ").out == "success"
        unknown = mqadmin("deleteAclConfig -c DefaultCluster -a nobody")
        assert (unknown.code, unknown.out, unknown.err.count("\n")) == (1, "", 2)


def test_over_tls(tmp_path: Path) -> None:
    with SecureCluster(tmp_path / "secure") as cluster:
        cluster.start_broker(**cluster.tls)
        mqadmin = Tool(cluster, tmp_path)
        settings, certificate = tmp_path / "tls.properties", tmp_path / "secure" / "server.pem"
        settings.write_text("tls.client.authServer=false\n")
        assert "#Cluster Name" in mqadmin(f"clusterList --tlsConfig {settings}").out
        assert mqadmin(f"sendMessage -t TBW102 -p x --tlsConfig {settings}").code == 0
        plain = mqadmin("clusterList")
        assert (plain.code, plain.err.count("\n")) == (1, 1)
        settings.write_text(f"tls.client.authServer=true\ntls.client.trustCertPath={certificate}\n")
        assert "certificate" in mqadmin(f"clusterList --tlsConfig {settings}").err, (
            "it is not its own authority"
        )
        settings.write_text("tls.client.authSever=true\n")
        problem = f"mqadmin clusterList: {settings}: there is no property tls.client.authSever\n"
        assert mqadmin(f"clusterList --tlsConfig {settings}").err == problem
        assert (
            "there is no configuration file"
            in mqadmin(f"clusterList --tlsConfig {tmp_path}/none").err
        )


def test_everything_down(tmp_path: Path) -> None:
    with Cluster(tmp_path / "gone") as gone:
        mqadmin = Tool(gone, tmp_path)
    printed = mqadmin("clusterList")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("mqadmin clusterList: no name server answers; ")
    assert printed.err.count("\n") == 1
    assert mqadmin("clusterList --compat-exit").code == 0
