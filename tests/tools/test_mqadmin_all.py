"""Every command, against a cluster of ours: what it prints (snapshots, and the original's own
output where there is some) and which requests it sends, in order (``admin-cli.md`` §2; the golden
wire).

To write the snapshots again: ``UPDATE_SNAPSHOTS=1 pytest tests/tools/test_mqadmin_all.py``, and
look at the difference.
"""

from __future__ import annotations

import difflib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.invocations import Invocations
from aiorocketmq.tools.mqadmin.catalog import CATALOG
from aiorocketmq.tools.mqadmin.java_text import hash_order

from ..golden_files import golden_lines
from .conftest import MqAdmin, Printed
from .golden_steps import golden_steps
from .mqadmin_world import GOLDEN_BROKER, World, world

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIDE_TRAFFIC = {RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT}


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes that ``mqadmin`` sends, without heartbeats; the cluster and its clients have
    threads of their own."""
    codes: list[int] = []
    here = threading.get_ident()

    original = Invocations.add

    def record(self: Invocations, code: int, *args: Any) -> Any:
        if threading.get_ident() == here and code not in SIDE_TRAFFIC:
            codes.append(int(code))
        return original(self, code, *args)

    monkeypatch.setattr(Invocations, "add", record)
    return codes


RunIn = Callable[..., Printed]


@pytest.fixture
def run_in(mqadmin: MqAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunIn:
    """Run a command line with the names of a world; files are written below ``tmp_path``."""
    monkeypatch.setattr("aiorocketmq.tools.mqadmin.commands.query.BODIES", tmp_path / "bodies")
    monkeypatch.chdir(tmp_path)

    def call(where: World, line: str) -> Printed:
        monkeypatch.setenv("NAMESRV_ADDR", where.cluster.namesrv_address)
        return mqadmin(*where.words(line))

    return call


TRACKS = "105 300 105 203 105 208 106 105"
"""Who got a message. Its groups are looked at side by side: in whatever order, and what is under
way already is not asked for once more."""
LOOKING: dict[str, str | None] = {
    "topicList": "206",
    "topicClusterList -t GoldNormal": "106 105",
    "topicRoute -t GoldNormal": "105",
    "topicRoute -t GoldNormal -l": "105",
    "topicStatus -t GoldNormal": "105 202",
    "clusterList": "106 28 219",
    "clusterList -m": "106 28 219",
    "brokerStatus -b {b}": "28",
    "brokerStatus -c DefaultCluster": "106 28",
    "getBrokerConfig -b {b}": "26",
    "getBrokerConfig -c DefaultCluster": "106 26",
    "getNamesrvConfig": "319",
    "getConsumerConfig -g GID_gold_tag": "106 201",
    "consumerConnection -g GID_gold_tag": "105 203",
    "consumerConnection -g GID_gold_tag -b {b}": "203",
    "producerConnection -g PID_gold -t GoldNormal": "105 204",
    "producer -b {b}": "328",
    "consumerProgress": "206 105 208 105 203 219",
    "consumerProgress -g GID_gold_tag": "105 208 101",
    "consumerProgress -g GID_gold_tag -s true": "105 208 105 203 105 307 101",
    "consumerProgress --all --sort lag": "106 201 105 208 105 203 219",
    "consumerStatus -g GID_gold_tag": "105 203 105 307",
    "consumerStatus -g GID_gold_tag -i {client}": "105 203 105 307",
    "brokerConsumeStats -b {b}": "317",
    "brokerConsumeStats -b {b} -l 3": "317",
    "statsAll -t GoldNormal": "206 105 105 300 315 315 105 208 315 105",
    "allocateMQ -t GoldNormal -i c,a,b": "105",
    "queryCq -t GoldNormal -q 2 -b {b} -c 2 -i 0": "321",
    "queryCq -t GoldNormal -q 2 -i 1 -g GID_gold_tag": "105 321",
    "queryMsgById -i {oid}": f"33 {TRACKS}",
    "queryMsgById -i {oid} -g GID_gold_tag -d {client}": "33 309",
    "queryMsgByUniqueKey -t GoldNormal -i {id}": f"105 12 {TRACKS}",
    "queryMsgByUniqueKey -t GoldNormal -i {id} -a": f"105 12 {TRACKS}",
    "queryMsgByUniqueKey -t GoldNormal -i {id} -g GID_gold_tag -d {client}": "105 12 309",
    "queryMsgByKey -t GoldNormal -k shared": "105 12",
    "queryMsgByKey -t GoldNormal -k key3 --body": "105 12",
    "queryMsgByOffset -t GoldNormal -b broker-g -i 2 -o 0": f"105 11 {TRACKS}",
    "queryMsgTraceById -i {id}": "105 12",
    "printMsg -t GoldNormal -d false -s TagA": "105 31 30 11 31 30 11 31 30 11 31 30 11",
    "printMsgByQueue -t GoldNormal -a broker-g -i 1 -p true -d true -f true": "105 31 30 11",
    "consumeMessage -t GoldNormal -b broker-g -i 1": "105 31 30 11 11",
    "exportConfigs -c DefaultCluster -f out": "106 26",
    "exportMetadata -c DefaultCluster -f out": "106 21 305 201",
    "exportMetadata -b {b} -t -f out": "21 305",
    "exportMetadata -b {b} -g -f out": "201",
    "exportMetrics -c DefaultCluster -f out": "106 28 26 201 21 305 315 315 105 203",
    "resetOffsetByTime -g GID_gold_tag -t GoldNormal -s now --dry-run": "105 208 30 30 30 30 101",
}
"""Steps that change nothing: command line to the codes of its requests; each finds what the fixture
left."""
DOING: dict[str, str | None] = {
    "resetOffsetByTime -g GID_gold_tag -t GoldNormal -s -1": "105 222 101",
    "resetOffsetByTime -g GID_gold_tag -t GoldNormal -s now -c": "105 222 101",
    "resetOffsetByTime -g GID_gold_pull -t GoldNormal -s 0": (
        "105 222 105 208 29 15 29 15 29 15 29 15 101"
    ),
    "skipAccumulatedMessage -g GID_gold_tag -t GoldNormal": "105 222 101",
    "skipAccumulatedMessage -g GID_gold_pull -t GoldNormal": (
        "105 222 105 208 30 15 30 15 30 15 30 15 101"
    ),
    "cloneGroupOffset -s GID_gold_tag -d GID_gold_clone -t GoldNormal": (
        "105 208 105 15 15 15 15 15"
    ),
    "updateTopic -b {b} -t GoldTx -r 2 -w 2": "17",
    "updateTopic -c DefaultCluster -t GoldOrder -r 4 -w 4 -o true": "106 17 106 100",
    "updateTopic -b {b} -t GoldOrder -r 4 -w 3 -o true": "17 106 101 100",
    "updateTopic -b {b} -t GoldToDelete -r 1 -w 1": "17",
    "updateTopicPerm -b {b} -t GoldToDelete -p 4": "105 17",
    "updateTopicPerm -c DefaultCluster -t GoldToDelete -p 4": "105 106 351",
    "updateTopicPerm -c DefaultCluster -t GoldToDelete -p 6": "105 106 17",
    "updateOrderConf -t GoldToDelete -m put -v broker-g:4": "100",
    "updateOrderConf -t GoldToDelete -m get": "101",
    "updateOrderConf -t GoldToDelete -m delete": "102",
    "deleteTopic -c DefaultCluster -t GoldToDelete": "106 215 216",
    "updateSubGroup -b {b} -g GID_gold_sql -s true": "200",
    "updateSubGroup -c DefaultCluster -g GID_gold_sql -r 3": "106 200",
    "getConsumerConfig -g GID_gold_sql": "106 201",
    "deleteSubGroup -b {b} -g GID_gold_clone": "207",
    "deleteSubGroup -c DefaultCluster -g GID_gold_clone": "106 207 106 215 216 106 215 216",
    "updateKvConfig -s gold -k kk -v vv": "100",
    "deleteKvConfig -s gold -k kk": "102",
    "updateBrokerConfig -b {b} -k flushDelayOffsetInterval -v 9000": "25",
    "updateBrokerConfig -c DefaultCluster -k flushDelayOffsetInterval -v 9000": "106 25",
    "updateNamesrvConfig -k orderMessageEnable -v false": "318",
    "wipeWritePerm -b broker-g": "205",
    "addWritePerm -b broker-g": "327",
    "cleanExpiredCQ -b {b}": "306",
    "deleteExpiredCommitLog -c DefaultCluster": "106 329",
    "cleanUnusedTopic": "106 316",
    "sendMessage -t GoldNormal -p body -b broker-g -i 3 -k k -c TagA": "105 310",
    "sendMsgStatus -b broker-g -c 1": "105 310 310",
    "checkMsgSendRT -t GoldNormal -a 2": "105 310 310",
    "clusterRT -a 2 --rounds 1": "106 105 310 310",
    "clusterRT -a 2 --rounds 1 -p true -m room": "106 105 310 310",
    "queryMsgById -i {oid} -s true": "33 105 310",
    "topicList -c": None,
    "topicList --stats": None,
}
"""Steps that change something, and what is looked at afterwards. ``None``: it depends on the number
of topics."""
STEPS = {**LOOKING, **DOING}


def file_of(line: str) -> Path:
    return SNAPSHOTS / (re.sub(r"[^\w.-]+", "_", line.replace("{", "").replace("}", "")) + ".txt")


CHANGING = {
    "brokerStatus": [
        (r"(?m)^(127\S+ +)?(\w+)([^:]*): .*$", r"\1\2\3: #"),
        (r"(commitLogDiskRatio)_[^:]+", r"\1_<path>"),
    ],
    "getBrokerConfig": [(r"=  .*", "=  #"), (r"(?m)^(?!=)(?!broker).*\n", "")],
    "getNamesrvConfig": [(r"=  .*", "=  #")],
    "clusterList": [(r"(broker-g.{40,60}V4_9_8|broker-g).*", r"\1 #")],
    "statsAll": [(r"(?m) +\d+\.\d\d +\d+\.\d\d +\d+ +\d+$", " <rates>")],
    "consumerProgress": [
        (r"Consume TPS: .*", "Consume TPS: #"),
        (r"(PUSH.*) \d+ ( +\d+)$", r"\1 #\2"),
    ],
    "consumerStatus": [
        (r"\b\d{13}/", "<now>/"),
        (r"(?m)^(PROP_\w+|[\w.]+) +: .*\n", ""),
        (r"\d{17}", "<ms>"),
        (r"((?:cached|commit|transaction)\w+)=-?\d+", r"\1=#"),
        (r"(?m)(broker-g +\d +)\d+( +)$", r"\1#\2"),
        (r"(?m)( +\d+\.\d\d){5} +\d+$", " <rates>"),
    ],
    "checkMsgSendRT": [(r"(true {20}|Avg RT: )\d[\d.]*", r"\1#")],
    "clusterRT": [
        (r"(broker-g +)\d[\d.]* *", r"\1# "),
        (r"(?m)\|\d+$", "|#"),
        (r"(?m)^[^|#]*\|", "<s>|"),
    ],
    "sendMsgStatus": [(r"rt=\d+ms|queueOffset=\d+|queueId=\d+", "#")],
    "queryMsgTraceById": [(r"\d+ms *", "#ms ")],
    "queryMsgById": [
        (r"queueOffset=\d+\]|queueId=\d+", "#"),
        (r"=[0-9A-F]{32}(?:[0-9A-F]{24})?SendResult", "=<id>SendResult"),
    ],
    "queryCq": [(r'"subVersion":\d+', '"subVersion":#')],
    "producerConnection": [(r"127\.0\.0\.1:\d+ +", "<peer> ")],
    "wipeWritePerm": [(r"OK, \d+", "OK, #")],
    "addWritePerm": [(r"OK, \d+", "OK, #")],
    "producer": [(r"clientId=[^,]*|lastUpdateTimestamp=\d+", "#")],
    "topicList": [(r"(\d) +\d+ +(<ms>)?$", r"\1 #")],
}
"""What the machine and its load decide, by command: patterns and what stands in a snapshot
instead."""


def settled(gold: World, line: str, text: str) -> str:
    text = gold.masked(text)
    for pattern, instead in CHANGING.get(line.split()[0], ()):
        text = re.sub(pattern, instead, text)
    if line.startswith(
        "getBrokerConfig"
    ):  # their order, tested below, depends on how many there are
        text = "".join(sorted(text.splitlines(keepends=True)))
    return re.sub(r"Message Body Path:   .*/", "Message Body Path:   <folder>/", text)


def check_step(run_in: RunIn, where: World, sent: list[int], line: str) -> None:
    """Codes, exit code and output of one command line."""
    sent.clear()
    printed = run_in(where, line)
    assert (printed.code, printed.err) == (0, ""), line
    codes = STEPS[line]
    asked = " ".join(map(str, sent))
    if codes is not None and codes.endswith(TRACKS):
        assert set(asked.split()) == set(codes.split()), (line, printed)
    else:
        assert codes in (None, asked), (line, printed)
    found, path = settled(where, line, printed.out), file_of(line)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found)
    assert found == path.read_text(), line


@pytest.mark.parametrize("line", LOOKING)
def test_a_step_that_looks(run_in: RunIn, gold: World, sent: list[int], line: str) -> None:
    check_step(run_in, gold, sent, line)


def test_the_steps_that_do_something(run_in: RunIn, sent: list[int]) -> None:
    """One after the other: each finds what those before it have made."""
    with world() as fresh:
        for line in DOING:
            check_step(run_in, fresh, sent, line)


def test_every_command_has_a_step() -> None:
    assert {entry.name for entry in CATALOG} - {line.split()[0] for line in STEPS} == {
        "startMonitoring",  # prints nothing
        "raftStatus",  # these need a group that elects its master
        "transferLeader",
        "updateAclConfig",  # these need a cluster with ACL
        "deleteAclConfig",
        "clusterAclConfigVersion",
        "updateGlobalWhiteAddr",
    }


def test_no_snapshot_is_left_over() -> None:
    assert {path.name for path in SNAPSHOTS.iterdir()} == {file_of(line).name for line in STEPS}


# --- the original
# --------------------------------------------------------------------------------------------------

SAME_BYTES = [
    "topicClusterList -t GoldNormal",
    f"updateTopic -b {GOLDEN_BROKER} -t GoldTx -r 2 -w 2",
    f"updateSubGroup -b {GOLDEN_BROKER} -g GID_gold_sql -s true",
    "cloneGroupOffset -s GID_gold_tag -d GID_gold_clone -t GoldNormal",
    "updateKvConfig -s gold -k kk -v vv",
    "deleteKvConfig -s gold -k kk",
    f"updateBrokerConfig -b {GOLDEN_BROKER} -k flushDelayOffsetInterval -v 9000",
    f"updateTopicPerm -b {GOLDEN_BROKER} -t GoldToDelete -p 4",
    "deleteTopic -c DefaultCluster -t GoldToDelete",
    f"deleteSubGroup -b {GOLDEN_BROKER} -g GID_gold_clone",
    f"cleanExpiredCQ -b {GOLDEN_BROKER}",
    "wipeWritePerm -b broker-g",
    "addWritePerm -b broker-g",
]


@pytest.mark.parametrize("line", SAME_BYTES)
def test_the_snapshot_is_what_the_original_printed(line: str) -> None:
    ours = file_of(line.replace(GOLDEN_BROKER, "{b}")).read_text()
    golden = re.sub(r"OK, \d+", "OK, #", golden_steps()[f"mqadmin {line}"]).replace(
        "127.0.0.1:27776", "127.0.0.1:27776"
    )
    assert ours == golden


SAME_LINES = {
    "consumerConnection -g GID_gold_tag": r"^[#\w].*|^$",
    "consumerStatus -g GID_gold_tag": r"^[#SR].*|^$",
    "resetOffsetByTime -g GID_gold_tag -t GoldNormal -s -1": r"^(?:rollback|#|broker-g +\d).*",
    "queryMsgByKey -t GoldNormal -k shared": r"^#.*",
    f"brokerConsumeStats -b {GOLDEN_BROKER}": r"^#.*|^$",
    "statsAll -t GoldNormal": r"^#.*",
    f"queryCq -t GoldNormal -q 2 -b {GOLDEN_BROKER} -c 5 -i 0": r"^(?:Queue|=+$).*",
}
"""Where figures differ: the lines that cannot."""


@pytest.mark.parametrize("line", SAME_LINES)
def test_lines_as_in_the_original(line: str) -> None:
    pattern = SAME_LINES[line]
    ours = file_of(line.replace(GOLDEN_BROKER, "{b}").replace("-c 5", "-c 2")).read_text()
    golden = re.sub(
        r"^(broker-g +\d+ +)\d+ +$", r"\1#", golden_steps()[f"mqadmin {line}"], flags=re.MULTILINE
    )
    ours = re.sub(r"^(broker-g +\d+ +)\d+ +$", r"\1#", ours, flags=re.MULTILINE)
    wanted, found = (
        list(dict.fromkeys(re.findall(pattern, text, re.MULTILINE))) for text in (golden, ours)
    )
    drop = re.compile(r"^(?:192|<client>|GoldNormal|%RETRY%|ConsumeFrom)")
    assert [text for text in found if not drop.match(text)] == [
        text for text in wanted if not drop.match(text)
    ]


@pytest.mark.parametrize("step", ["queryMsgById", "queryMsgByUniqueKey", "queryMsgByOffset"])
def test_a_message_in_the_originals_layout(step: str) -> None:
    """Names and columns of the block, and blank lines up to the tracks."""
    golden = next(
        text for name, text in golden_steps().items() if name.startswith(f"mqadmin {step} ")
    )
    ours = next(file_of(line).read_text() for line in STEPS if line.startswith(f"{step} "))

    def shape(text: str) -> list[str]:
        head = text.partition("MessageTrack")[0]
        return [re.sub(r"(?<=.{21}).*", "", line) for line in head.split("\n")]

    assert shape(ours) == shape(golden)
    assert re.fullmatch(
        r"(MessageTrack \[consumerGroup=\S+, trackType=\w+, exceptionDesc=[^]]*(\])?[^]]*\])+",
        ours.split("\n")[-1],
    )


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("getBrokerConfig -b {b}", f"getBrokerConfig -b {GOLDEN_BROKER}"),
        ("getNamesrvConfig", "getNamesrvConfig"),
    ],
)
def test_properties_in_the_originals_order(
    run_in: RunIn, gold: World, line: str, step: str
) -> None:
    """Which depends on how many there are, and we have some more: so it is compared for those that
    both have. But for a few that fall into one bucket: which of them comes first depends on how the
    table has grown."""

    def names(text: str) -> list[str]:
        return re.findall(r"(?m)^([\w.]+) +=  ", text)

    ours, golden = names(run_in(gold, line).out), names(golden_steps()[f"mqadmin {step}"])
    common = set(ours) & set(golden)
    assert len(common) > 10
    assert ours == hash_order(ours)
    found, wanted = (
        hash_order(name for name in ours if name in common),
        [name for name in golden if name in common],
    )
    assert difflib.SequenceMatcher(None, found, wanted).ratio() > 0.85


def golden_codes(step: str) -> list[int]:
    """What the original's tool sent in a step: without heartbeats, and the routes of TBW102 that
    its clients ask for."""
    codes = []
    for frame in golden_lines("json-wire"):
        if (
            frame["step"] != step
            or frame["initiator"] != "client"
            or frame["dir"] != "c2s"
            or frame["kind"] == "resp"
        ):
            continue
        fields = frame["header"].get("extFields") or {}
        if frame["code"] not in SIDE_TRAFFIC and fields.get("topic") != "TBW102":
            codes.append(frame["code"])
    return codes


@pytest.mark.parametrize(
    "line",
    [
        f"updateTopic -b {GOLDEN_BROKER} -t GoldTx -r 2 -w 2",
        "updateTopic -c DefaultCluster -t GoldOrder -r 4 -w 4 -o true",
        f"updateSubGroup -b {GOLDEN_BROKER} -g GID_gold_sql -s true",
        "topicList",
        "topicRoute -t GoldNormal",
        "topicClusterList -t GoldNormal",
        "topicStatus -t GoldNormal",
        f"brokerStatus -b {GOLDEN_BROKER}",
        f"getBrokerConfig -b {GOLDEN_BROKER}",
        f"brokerConsumeStats -b {GOLDEN_BROKER}",
        "consumerProgress",
        "consumerConnection -g GID_gold_tag",
        "producerConnection -g PID_gold -t GoldNormal",
        "consumerStatus -g GID_gold_tag",
        "resetOffsetByTime -g GID_gold_tag -t GoldNormal -s -1",
        "cloneGroupOffset -s GID_gold_tag -d GID_gold_clone -t GoldNormal",
        "queryMsgByKey -t GoldNormal -k shared",
        "getNamesrvConfig",
        "getConsumerConfig -g GID_gold_sql",
        "updateKvConfig -s gold -k kk -v vv",
        "deleteKvConfig -s gold -k kk",
        f"updateBrokerConfig -b {GOLDEN_BROKER} -k flushDelayOffsetInterval -v 9000",
        "wipeWritePerm -b broker-g",
        "addWritePerm -b broker-g",
        f"updateTopicPerm -b {GOLDEN_BROKER} -t GoldToDelete -p 4",
        "deleteTopic -c DefaultCluster -t GoldToDelete",
        f"deleteSubGroup -b {GOLDEN_BROKER} -g GID_gold_clone",
        f"cleanExpiredCQ -b {GOLDEN_BROKER}",
    ],
)
def test_the_codes_are_those_of_the_original(line: str) -> None:
    """But for the last one, which some ask for what is missing: which brokers are lost."""
    ours = STEPS[line.replace(GOLDEN_BROKER, "{b}")] or ""
    assert re.sub(" (219|101)$", "", ours) == " ".join(map(str, golden_codes(f"mqadmin {line}")))


# --- the same with an access control list
# ------------------------------------------------------------------------------


def test_every_step_behind_an_access_control_list(
    run_in: RunIn, sent: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Signed by an administrator, each step sends and prints what it does without a list."""
    home = tmp_path / "home"
    (home / "conf").mkdir(parents=True)
    account = "accounts:\n- accessKey: the-admin\n  secretKey: admin-secret\n  admin: true\n"
    (home / "conf" / "plain_acl.yml").write_text(account)
    (home / "conf" / "tools.yml").write_text("accessKey: the-admin\nsecretKey: admin-secret\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(home))
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "the-admin")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "admin-secret")
    with world(aclEnable="true", rocketmqHome=str(home)) as guarded:
        for line in STEPS:
            check_step(run_in, guarded, sent, line)
