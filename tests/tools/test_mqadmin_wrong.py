"""Every command when what it asks for does not exist, or is not allowed: a clear line, the right
exit code, no traceback."""

from __future__ import annotations

import re
import socketserver
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from aiorocketmq.testing import LocalCluster

from .conftest import MqAdmin, Printed
from .mqadmin_arguments import MINIMAL

MAKES_IT = {"updateTopic", "updateSubGroup", "sendMessage", "sendMsgStatus", "checkMsgSendRT"}
"""Topics are created automatically in this cluster."""
NOBODY_MINDS = {
    "deleteSubGroup",
    "updateBrokerConfig",
    "brokerStatus",
    "brokerConsumeStats",
    "consumerProgress",
    "producer",
    "clusterList",
    "topicList",
    "updateKvConfig",
    "deleteKvConfig",
    "cleanExpiredCQ",
    "deleteExpiredCommitLog",
    "cleanUnusedTopic",
    "startMonitoring",
    "statsAll",
    "clusterRT",
    "getNamesrvConfig",
    "updateNamesrvConfig",
    "getBrokerConfig",
}
"""They name no topic or group that must be there."""
IS_OF_THE_COMMAND_LINE = re.compile(
    r"Invalid value|neither a number|\badd -|give both|leave (one )?out|there is no charset"
    "|an order configuration is|is no offset message id|is no address|must look like host"
    "|no configuration file"
)
"""Exit code 2."""
REASONS = {
    "queryMsgById": "cannot connect to 127.0.0.1:27811: connection refused (nothing listens there)",
    "queryMsgTraceById": "nothing was ever traced: there is no topic RMQ_SYS_TRACE_TOPIC",
    "deleteTopic": "there is no cluster C; the name server knows: DefaultCluster",
    "exportMetadata": "there is no cluster C; the name server knows: DefaultCluster",
    "exportConfigs": "there is no cluster C; the name server knows: DefaultCluster",
    "exportMetrics": "there is no cluster C; the name server knows: DefaultCluster",
    "consumerConnection": "no broker knows the consumer group G: nobody of it has ever been online",
    "consumerStatus": "no broker knows the consumer group G: nobody of it has ever been online",
    "cloneGroupOffset": "no broker has the topic %RETRY%G, as far as the name server knows",
    "getConsumerConfig": "no broker has the consumer group G",
    "wipeWritePerm": "no topic of a broker B is known there: nothing has changed",
    "addWritePerm": "no topic of a broker B is known there: nothing has changed",
    "updateOrderConf": "the topic T has no order configuration",
    "queryCq": "SYSTEM_ERROR (1) from {b}: 0@T is not exist!",
    "queryMsgByOffset": "the broker B has no master at present, as far as the name server knows",
    "raftStatus": "{b} belongs to no group that elects its master",
    "transferLeader": "{b} belongs to no group that elects its master",
    "updateAclConfig": (
        "UPDATE_AND_CREATE_ACL_CONFIG_FAILED (209) from {b}: ACL is off: set aclEnable=true"
    ),
    "deleteAclConfig": "DELETE_ACL_CONFIG_FAILED (210) from {b}: ACL is off: set aclEnable=true",
    "clusterAclConfigVersion": "SYSTEM_ERROR (1) from {b}: ACL is off: set aclEnable=true",
    "updateGlobalWhiteAddr": (
        "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED (211) from {b}: ACL is off: set aclEnable=true"
    ),
}
"""The others say that no broker has the topic T."""


def run(mqadmin: MqAdmin, cluster: LocalCluster, name: str) -> Printed:
    words = MINIMAL[name].format(b=cluster.broker_address).split()
    return mqadmin(name, "-n", cluster.namesrv_address, *words)


@pytest.mark.parametrize("name", sorted(MINIMAL.keys() - MAKES_IT - NOBODY_MINDS))
def test_what_does_not_exist(
    mqadmin: MqAdmin, cluster: LocalCluster, name: str, tmp_path: Path
) -> None:
    printed = run(mqadmin, cluster, name)
    reason = REASONS.get(name, "no broker has the topic T, as far as the name server knows")
    assert printed.err.startswith(f"mqadmin {name}: {reason.format(b=cluster.broker_address)}")
    assert (printed.code, printed.err.count("\n")) == (1, 1)
    assert printed.out.count("\n") <= 1, "a heading at most"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            "updateTopicPerm -b 127.0.0.1:1 -t TBW102 -p 6",
            "127.0.0.1:1 is no master of the topic TBW102; its masters are: 127",
        ),
        (
            "updateTopicPerm -c Nowhere -t TBW102 -p 6",
            "there is no cluster Nowhere; the name server knows: DefaultCluster",
        ),
        (
            "updateOrderConf -t T -m put",
            "what the topic is to look like is missing: add -v BROKER:QUEUES;BROKER:QUEUES",
        ),
        (
            "updateOrderConf -t T -m put -v nonsense",
            "an order configuration is broker:queues;broker:queues, 'nonsense' is not",
        ),
        (
            "updateOrderConf -t T -m post",
            "Invalid value for '-m' / '--method': 'post' is not one of 'get', 'put', 'delete'.",
        ),
        (
            "updateBrokerConfig -k a -v b",
            "a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER",
        ),
        ("updateNamesrvConfig -k kvConfigPath -v /x", "NO_PERMISSION (16) from 127.0.0.1:"),
        ("deleteSubGroup -g G", "a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER"),
        ("exportMetadata -t", "a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER"),
        (
            "exportMetadata -b 1:1",
            "of one broker either topics or groups are exported: add -t or -g, or use -c",
        ),
        ("queryMsgById -i nonsense", "'nonsense' is no offset message id: "),
        ("topicList -n nowhere", "the name server address 'nowhere' must look like host:9876"),
        ("updateTopic -t T -b nowhere", "'nowhere' is no address; it must look like host:port"),
        ("topicList --tlsConfig nosuch.file", "there is no configuration file nosuch.file"),
        (
            "queryMsgById -i 7F00000100006CA30000000000000000 -g G",
            "a group and one of its clients belong together: give both",
        ),
        (
            "queryMsgByKey -t TBW102 -k none",
            "no broker has a message with the key none of the topic TBW102",
        ),
        ("queryMsgByUniqueKey -t TBW102 -i ABC", "no broker has a message ABC of the topic TBW102"),
        (
            "queryMsgByOffset -t TBW102 -b broker-g -i 0 -o 5",
            "queue 0 of TBW102 on broker-g has offsets from 0 to -1, not 5",
        ),
        ("printMsg -t TBW102 -c klingon", "there is no charset klingon"),
        (
            "printMsgByQueue -t TBW102 -a other -i 0",
            "the broker other has no queue 0 of the topic TBW102 that can be read",
        ),
        (
            "resetOffsetByTime -g G -t TBW102 -s yesterday",
            "'yesterday' is neither a number of milliseconds nor",
        ),
        (
            "resetOffsetByTime -g G -t TBW102 -s now -c",
            "the group G has no offset yet in some queue of TBW102",
        ),
        (
            "resetOffsetByTime -g G -t TBW102 -s now",
            "the group G has no offset yet in some queue of TBW102",
        ),
        (
            "skipAccumulatedMessage -g G -t TBW102",
            "the group G has no offset yet in some queue of TBW102",
        ),
        (
            "consumerProgress -g G --sort lag",
            "--all and --sort are for the list of groups: leave out -g",
        ),
        ("topicList -c --stats", "-c and --stats are two different lists: leave one out"),
        ("allocateMQ -t TBW102 -i ,", "nobody is there to share the queues: add -i CLIENT,CLIENT"),
        ("statsAll -t Nowhere", "no broker has the topic Nowhere, as far as the name server knows"),
        ("exportConfigs -c DefaultCluster -f /dev/null/x", "/dev/null/x: Not a directory"),
        ("topicStatus -t TBW102 --watch 0", "Invalid value for '--watch': 0"),
    ],
)
def test_wrong_values(admin: MqAdmin, arguments: str, problem: str) -> None:
    printed = admin(*arguments.split())
    assert problem in printed.problem
    assert printed.code == (2 if IS_OF_THE_COMMAND_LINE.search(problem) else 1)
    if printed.code == 2:
        assert admin(*arguments.split(), "--compat-exit").code in (0, 1)


def test_a_name_server_is_no_broker(mqadmin: MqAdmin, cluster: LocalCluster) -> None:
    address = cluster.namesrv_address
    printed = mqadmin("brokerStatus", "-n", address, "-b", address)
    assert printed.code == 1
    assert printed.problem.endswith("; that is a name server, -b takes the address of a broker")
    printed = mqadmin("raftStatus", "-n", address, "-b", cluster.broker_address)
    assert "name server" not in printed.problem


class _HangsUp(socketserver.BaseRequestHandler):
    """What a port does that takes nothing but TLS."""

    def handle(self) -> None:
        self.request.recv(1)


def test_who_hangs_up_may_want_tls(mqadmin: MqAdmin, tmp_path: Path) -> None:
    hint = "; where nothing but TLS is taken, add --tlsConfig FILE"
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _HangsUp) as server:
        address = f"127.0.0.1:{server.server_address[1]}"
        Thread(target=server.serve_forever).start()
        printed = mqadmin("clusterList", "-n", address)
        (tmp_path / "tls.conf").write_text("tls.client.authServer=false")
        secure = mqadmin("clusterList", "-n", address, "--tlsConfig", f"{tmp_path}/tls.conf")
        server.shutdown()
    assert (printed.code, printed.problem.endswith(hint)) == (1, True)
    assert (secure.code, secure.problem.endswith(hint)) == (1, False)


# --- no permission
# --------------------------------------------------------------------------------------------------

ACCOUNTS = """\
accounts:
  - {accessKey: the-admin, secretKey: admin-secret, admin: true}
  - {accessKey: the-reader, secretKey: reader-secret}
"""
ASKS_NO_BROKER = {
    "topicRoute", "topicClusterList", "topicList", "updateKvConfig", "deleteKvConfig",
    "wipeWritePerm", "addWritePerm",
    "updateOrderConf", "allocateMQ", "getNamesrvConfig", "updateNamesrvConfig",
}  # fmt: skip
GOES_ON = {"consumerProgress", "statsAll", "startMonitoring"}
"""What cannot be asked is left out, or told in the log."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("guarded")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    properties = {"brokerName": "broker-g", "aclEnable": "true", "rocketmqHome": str(home)}
    with LocalCluster(properties=properties) as cluster:
        yield cluster


def sign_as(
    monkeypatch: pytest.MonkeyPatch, folder: Path, access_key: str, secret_key: str
) -> None:
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "tools.yml").write_text(
        f"accessKey: {access_key}\nsecretKey: {secret_key}\n"
    )
    monkeypatch.setenv("ROCKETMQ_HOME", str(folder))


def existing(cluster: LocalCluster, name: str) -> list[str]:
    """The arguments with a topic, a cluster and a broker that are there."""
    words = MINIMAL[name].format(b=cluster.broker_address).split()
    known = {"T": "TBW102", "C": "DefaultCluster", "B": "broker-g", "H": "TBW102"}
    return [known.get(word, word) for word in words]


@pytest.mark.parametrize(
    "name",
    sorted(MINIMAL.keys() - ASKS_NO_BROKER - GOES_ON - {"queryMsgById", "queryMsgTraceById"}),
)
def test_unsigned(mqadmin: MqAdmin, guarded: LocalCluster, name: str) -> None:
    printed = mqadmin(name, "-n", guarded.namesrv_address, *existing(guarded, name))
    assert printed.code == 1
    lines = printed.err.splitlines()
    assert lines, printed
    assert all(line.startswith(f"mqadmin {name}: ") for line in lines), "no traceback"
    unknown_group = (
        "no broker has the topic %RETRY%G" in lines[0]
        or "no broker knows the consumer group G" in lines[0]
    )
    assert unknown_group or "No accessKey is configured" in lines[0], lines


@pytest.mark.parametrize(
    "name",
    ["updateTopic", "deleteTopic", "updateSubGroup", "deleteSubGroup", "updateBrokerConfig",
    "updateAclConfig",
     "deleteAclConfig", "updateGlobalWhiteAddr"],
)  # fmt: skip
def test_an_account_that_may_not(
    mqadmin: MqAdmin,
    guarded: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    sign_as(monkeypatch, tmp_path, "the-reader", "reader-secret")
    printed = mqadmin(name, "-n", guarded.namesrv_address, *existing(guarded, name))
    assert (printed.code, printed.err.count("\n")) == (1, 1)
    assert printed.err.startswith(f"mqadmin {name}: ")
    assert "reader-secret" not in printed.err + printed.out


def test_accounts(
    mqadmin: MqAdmin, guarded: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Made, used, listed, deleted; no secret is ever printed."""
    sign_as(monkeypatch, tmp_path, "the-admin", "admin-secret")
    monkeypatch.setenv("NAMESRV_ADDR", guarded.namesrv_address)
    broker = guarded.broker_address
    made = mqadmin(
        "updateAclConfig",
        "-c",
        "DefaultCluster",
        "-a",
        "the-tester",
        "-s",
        "tester-secret",
        "-t",
        "A=PUB,B=PUB|SUB",
        "-m",
        "true",
    )
    assert (made.code, made.err) == (0, "")
    assert made.out == (
        f"create or update plain access config to {broker} success.\n"
        "PlainAccessConfig [accessKey=the-tester, whiteRemoteAddress=null, admin=true, "
        "defaultTopicPerm=null, "
        "defaultGroupPerm=null, topicPerms=[A=PUB, B=PUB|SUB], groupPerms=[]]"
    )
    versions = mqadmin("clusterAclConfigVersion", "-c", "DefaultCluster").out.splitlines()
    layout = "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s"
    headings = (
        "#Cluster Name",
        "#Broker Name",
        "#Broker Addr",
        "#AclFilePath",
        "#AclConfigVersionNum",
        "#AclLastUpdateTime",
    )
    assert versions[0] == layout % headings
    assert versions[1].split()[:3] == ["DefaultCluster", "broker-g", broker]
    assert versions[1].split()[3].endswith("plain_acl.yml")
    assert versions[2] == "get cluster's plain access config version success."
    of_broker = mqadmin("clusterAclConfigVersion", "-b", broker).out.splitlines()
    assert of_broker == [versions[1], "get broker's plain access config version success."]
    white = mqadmin("updateGlobalWhiteAddr", "-b", broker, "-g", "10.9.8.7,10.9.8.6")
    assert (white.code, white.out) == (
        0,
        f"update global white remote addresses to {broker} success.\n",
    )
    gone = mqadmin("deleteAccessConfig", "-c", "DefaultCluster", "-a", "the-tester")
    assert (
        gone.out
        == f"delete plain access config account from {broker} success.\naccount's accesskey "
        "is:the-tester"
    )
    again = mqadmin("deleteAclConfig", "-b", broker, "-a", "the-tester")
    assert again.code == 1
    assert "the-tester" in again.err
