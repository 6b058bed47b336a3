"""What the original's mqadmin does not have: JSON, watching, dry runs, sorting, completion, the
monitor's log."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aiorocketmq import Admin, MessageQueue
from aiorocketmq.remoting.errors import RequestTimeout
from aiorocketmq.remoting.protocol.bodies.connection import ClientConnection, ConsumerConnection
from aiorocketmq.remoting.protocol.bodies.running_info import ConsumerRunningInfo
from aiorocketmq.remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from aiorocketmq.testing import LocalCluster
from aiorocketmq.tools.mqadmin import catalog
from aiorocketmq.tools.mqadmin.commands import monitor
from aiorocketmq.tools.mqadmin.output import Layout, Output

from .conftest import MqAdmin
from .mqadmin_world import GROUP, OFFLINE_GROUP, TOPIC, World, world
from .test_mqadmin_all import LOOKING

WITH_JSON = {
    entry.name
    for entry in catalog.CATALOG
    if "as_json" in {p.name for p in catalog.load(entry).params}
}
JSON_STEPS = [
    line
    for line in LOOKING
    if line.split()[0] in WITH_JSON and "-s true" not in line and " -d {client}" not in line
]


@pytest.fixture(scope="module")
def gold() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def here(mqadmin: MqAdmin, gold: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MqAdmin:
    monkeypatch.setenv("NAMESRV_ADDR", gold.cluster.namesrv_address)
    monkeypatch.setattr("aiorocketmq.tools.mqadmin.commands.query.BODIES", tmp_path / "bodies")
    monkeypatch.chdir(tmp_path)
    return mqadmin


# --- JSON
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", JSON_STEPS)
def test_json(here: MqAdmin, gold: World, line: str) -> None:
    """One document, and nothing else; the rows of the text are its rows."""
    printed = here(*gold.words(line), "--json")
    assert printed.err == ""
    document = json.loads(printed.out)
    assert document not in (None, {}), "something is always told"
    rows = document if isinstance(document, list) else document.get("rows", [])
    assert all(
        isinstance(row, dict) and all(re.fullmatch(r"[a-z]\w*", key) for key in row) for row in rows
    )


def test_json_of_a_group(here: MqAdmin) -> None:
    document = json.loads(here("consumerProgress", "-g", GROUP, "--json").out)
    assert document.keys() == {"rows", "consumeTps", "diffTotal"}
    assert document["diffTotal"] == 0
    row = next(row for row in document["rows"] if row["topic"] == TOPIC and row["qid"] == 2)
    assert (row["brokerName"], row["brokerOffset"], row["consumerOffset"], row["diff"]) == (
        "broker-g",
        3,
        3,
        0,
    )


def test_json_of_a_message(here: MqAdmin, gold: World) -> None:
    [message] = json.loads(
        here("queryMsgByUniqueKey", "-t", TOPIC, "-i", gold.msg_id, "--json").out
    )
    assert (message["topic"], message["queueId"], message["body"]) == (TOPIC, 0, "hello 0")
    assert {track["consumerGroup"]: track["trackType"] for track in message["tracks"]}[
        GROUP
    ] == "CONSUMED"


def test_a_failure_prints_no_json(here: MqAdmin) -> None:
    assert (
        "no broker has the topic Nowhere" in here("topicStatus", "-t", "Nowhere", "--json").problem
    )


# --- looking further
# --------------------------------------------------------------------------------------------------


def test_sorted_by_lag(here: MqAdmin, gold: World) -> None:
    here("updateSubGroup", "-b", gold.cluster.broker_address, "-g", OFFLINE_GROUP)
    lines = here("consumerProgress", "--all", "--sort", "name").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted([GROUP, OFFLINE_GROUP])
    assert here("consumerProgress", "--sort", "lag").out.splitlines()[1].startswith(GROUP)


def test_bodies_by_key(here: MqAdmin) -> None:
    lines = here("queryMsgByKey", "-t", TOPIC, "-k", "shared", "--body").out.splitlines()
    assert lines[0].endswith("  #Body")
    assert [line.split("  ")[-1] for line in lines[1:]] == [f"hello {n}" for n in range(12)]


def test_a_dry_run_moves_nothing(here: MqAdmin) -> None:
    before = here("resetOffsetByTime", "-g", OFFLINE_GROUP, "-t", TOPIC, "-s", "now", "--dry-run")
    rows = [line.split() for line in before.out.splitlines()[2:]]
    assert [row[2:] for row in rows] == [["3", "1", "3", "3"]] * 4, "at the end, was 1, would be 3"
    assert (
        here("resetOffsetByTime", "-g", OFFLINE_GROUP, "-t", TOPIC, "-s", "now", "--dry-run").out
        == before.out
    )
    here("resetOffsetByTime", "-g", OFFLINE_GROUP, "-t", TOPIC, "-s", "now")
    after = here(
        "resetOffsetByTime", "-g", OFFLINE_GROUP, "-t", TOPIC, "-s", "0", "--dry-run", "-f", "false"
    ).out
    assert [line.split()[2:] for line in after.splitlines()[2:]] == [["3", "3", "0", "0"]] * 4
    here("resetOffsetByTime", "-g", OFFLINE_GROUP, "-t", TOPIC, "-s", "0")
    kept = here("skipAccumulatedMessage", "-g", OFFLINE_GROUP, "-t", TOPIC, "-f", "false").out
    assert [line.split()[2:] for line in kept.splitlines()[1:]] == [["3", "0", "3", "0"]] * 4, (
        "only back"
    )


@pytest.mark.parametrize("line", ["resetOffsetByTime -s 0", "skipAccumulatedMessage"])
def test_who_fails_in_the_middle_says_that_some_may_have_been_moved(
    here: MqAdmin, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    asked, update = 0, Admin.update_consumer_offset

    async def fails_the_third_time(
        admin: Admin, group: str, queue: MessageQueue, offset: int
    ) -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise RequestTimeout("no answer in time")
        await update(admin, group, queue, offset)

    monkeypatch.setattr(Admin, "update_consumer_offset", fails_the_third_time)
    failed = here(*line.split(), "-g", OFFLINE_GROUP, "-t", TOPIC)
    assert failed.code == 1
    assert failed.problem == (
        f"mqadmin {line.split()[0]}: no answer in time; some queues of {TOPIC} may have been moved "
        f"before: resetOffsetByTime --dry-run shows where {OFFLINE_GROUP} stands, the same command "
        "once more moves all of them"
    )
    assert here(*line.split(), "-g", OFFLINE_GROUP, "-t", TOPIC).code == 0


def test_topic_list_with_stats(here: MqAdmin) -> None:
    rows = {
        line.split()[0]: line.split()[1:3] for line in here("topicList", "--stats").out.splitlines()
    }
    assert rows["#Topic"] == ["#Queues", "#Messages"]
    assert rows[TOPIC][0] == "4"
    assert int(rows[TOPIC][1]) >= 12


# --- watching
# --------------------------------------------------------------------------------------------------


def process(gold: World, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "aiorocketmq.tools.mqadmin", *arguments]
    variables = {**os.environ, "NAMESRV_ADDR": gold.cluster.namesrv_address, **environment}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
    )


@pytest.mark.parametrize(
    "arguments",
    [
        f"topicStatus -t {TOPIC}",
        "clusterList",
        f"consumerProgress -g {GROUP}",
        "brokerStatus -c DefaultCluster",
    ],
)
def test_watch(gold: World, arguments: str) -> None:
    """The same table again; what it began with comes a second time."""
    running = process(gold, *arguments.split(), "--watch", "0.1")
    assert running.stdout is not None
    first = running.stdout.readline()
    start = first.partition(":")[0]
    assert any(line.startswith(start) for line in running.stdout), running.stderr
    running.kill()
    running.communicate(timeout=30)


def test_monitoring_tells_what_it_finds_in_the_log(gold: World) -> None:
    running = process(
        gold, "startMonitoring", "--rounds", "1", "--interval", "0.1", "--logFormat", "json"
    )
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "")
    lines = [json.loads(line) for line in err.splitlines()]
    undone = next(
        line
        for line in lines
        if line["event"] == "[MONITOR] undone messages" and line["topic"] == TOPIC
    )
    assert (undone["group"], undone["total"], undone["delay_ms"]) == (GROUP, 0, 0)
    assert lines[-1]["event"] == "[MONITOR] round done"


@pytest.mark.parametrize(
    "line",
    [f"queryMsgByKey -t {TOPIC} -k", f"queryMsgByUniqueKey -t {TOPIC} -i", "queryMsgTraceById -i"],
)
def test_a_message_is_found_whoever_else_does_not_answer(
    here: MqAdmin, gold: World, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    dead, addresses = "127.0.0.1:1", Admin._addresses_of_topic

    async def one_more(admin: Admin, topic: str) -> list[str]:
        return [dead, *await addresses(admin, topic)]

    command, *options = line.split()
    wanted = "key0" if options[-1] == "-k" else gold.msg_id
    alone = here(command, *options, wanted)
    monkeypatch.setattr(Admin, "_addresses_of_topic", one_more)
    printed = here(command, *options, wanted)
    assert alone.code == 0
    assert printed.out.splitlines()[1] == alone.out.splitlines()[1]
    assert f"{dead} was not looked through: cannot connect to {dead}" in printed.err
    assert printed.code == 1
    assert f"cannot connect to {dead}" in here(command, *options, "none").problem, "it may be there"


AWAY = "192.0.2.3@away"


@pytest.fixture
def one_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group has a second member, which comes first and does not answer."""
    connection, running_info = Admin.consumer_connection, Admin.consumer_running_info

    async def both(admin: Admin, group: str) -> ConsumerConnection:
        found = await connection(admin, group)
        members = (ClientConnection(client_id=AWAY), *found.connection_set)
        return msgspec.structs.replace(found, connection_set=members)

    async def of_one(admin: Admin, group: str, client_id: str) -> ConsumerRunningInfo:
        if client_id == AWAY:
            raise RequestTimeout("no answer in time")
        return await running_info(admin, group, client_id)

    monkeypatch.setattr(Admin, "consumer_connection", both)
    monkeypatch.setattr(Admin, "consumer_running_info", of_one)


@pytest.mark.usefixtures("one_is_away")
def test_a_member_that_does_not_answer_hides_no_other_one(here: MqAdmin) -> None:
    printed = here("consumerProgress", "-g", GROUP, "-s", "true", "--json")
    assert [
        row["clientIp"] for row in json.loads(printed.out)["rows"] if row["topic"] == TOPIC
    ] == ["192.0.2.2"] * 4
    assert (printed.code, f"{AWAY}: no answer in time" in printed.err) == (1, True)


@pytest.mark.usefixtures("one_is_away")
def test_the_monitor_tells_who_does_not_answer_and_what_others_say(
    gold: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(_admin: Admin, _queue: MessageQueue, _offset: int, _most: int) -> None:
        raise RequestTimeout("no answer in time")

    def finding(client_id: str, _info: ConsumerRunningInfo) -> list[str]:
        return [f"{client_id} was looked at"]

    async def look() -> None:
        async with Admin(namesrv=gold.cluster.namesrv_address) as admin:
            await monitor._look_at(admin, GROUP)

    async def behind(_admin: Admin, _group: str) -> ConsumeStats:
        at = OffsetWrapper(broker_offset=3, consumer_offset=1)
        return ConsumeStats(offset_table={MessageQueue(TOPIC, "broker-g", 0): at})

    monkeypatch.setattr(Admin, "consume_stats", behind)
    monkeypatch.setattr(Admin, "pull", fails)
    monkeypatch.setattr(monitor, "findings_about", finding)
    with caplog.at_level("WARNING", logger=monitor.log.name):
        asyncio.run(look())
    assert [
        record.getMessage() for record in caplog.records if record.name == monitor.log.name
    ] == [
        f"[MONITOR] topic not looked at group={GROUP} topic={TOPIC} error=no answer in time",
        f"[MONITOR] member does not answer group={GROUP} client={AWAY} error=no answer in time",
        f"[MONITOR] group={GROUP} finding={gold.client_id} was looked at",
    ]


# --- terminal
# --------------------------------------------------------------------------------------------------


def test_progress_comes_and_goes_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    on_terminal = Output(stream, terminal=True)
    on_terminal.progress("1 of 2 \x1b[31m")
    assert capsys.readouterr().err == "\r\x1b[K1 of 2 \\x1b[31m"
    on_terminal.line("a message")
    assert capsys.readouterr().err == "\r\x1b[K", "it makes room"
    assert stream.getvalue() == "a message\n"
    piped = Output(io.StringIO())
    piped.progress("1 of 2")
    piped.clear()
    assert capsys.readouterr().err == ""


def test_json_is_plain_on_a_terminal() -> None:
    stream = io.StringIO()
    output = Output(stream, terminal=True, as_json=True)
    with output.table(Layout(("#Broker Name", "#InTPS(LOAD)", "#Space"), row="%s %s %s")) as table:
        table.row("b", "     1.50(0,0ms)", "0.2500")
        table.rule("---")
        table.row("Total:", "", "")
    output.line("not this")
    output.close()
    assert json.loads(stream.getvalue()) == [
        {"brokerName": "b", "inTpsLoad": "1.50(0,0ms)", "space": 0.25}
    ]
    assert "\x1b" not in stream.getvalue()


# --- files that peers could choose
# ---------------------------------------------------------------------------------------


def test_a_client_id_is_no_path() -> None:
    from aiorocketmq.tools.mqadmin.commands.consumer_status import _file_name

    assert _file_name("10.0.0.1@7#8") == "10.0.0.1@7#8"
    assert _file_name("../../etc/passwd") == "_.._etc_passwd"
    assert _file_name("..") == "_"


def test_the_body_of_a_message_is_written(here: MqAdmin, gold: World, tmp_path: Path) -> None:
    here("queryMsgById", "-i", gold.offset_msg_id)
    assert (tmp_path / "bodies" / gold.msg_id).read_bytes() == b"hello 0"


# --- completion
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for(mqadmin: MqAdmin, shell: str) -> None:
    printed = mqadmin("completion", shell)
    assert (printed.code, printed.err) == (0, "")
    assert "_MQADMIN_COMPLETE" in printed.out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("mqadmin topicSt", "topicStatus"),
        ("mqadmin topicStatus --wa", "--watch"),
        ("mqadmin upd", "updateTopic"),
    ],
)
def test_words_are_completed(
    mqadmin: MqAdmin, monkeypatch: pytest.MonkeyPatch, cluster: LocalCluster, words: str, found: str
) -> None:
    monkeypatch.setenv("_MQADMIN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert f"plain,{found}" in mqadmin().out.splitlines()


# --- traces
# --------------------------------------------------------------------------------------------------


def test_a_message_sent_with_a_trace_is_found_by_it(here: MqAdmin) -> None:
    [sent] = json.loads(here("sendMessage", "-t", "Traced", "-p", "x", "-m", "true", "--json").out)
    traced = here("queryMsgTraceById", "-i", sent["msgId"])
    while traced.code:  # the index follows the log
        assert "no trace of the message" in traced.err
        traced = here("queryMsgTraceById", "-i", sent["msgId"])
    heading, row, blank = traced.out.split("\n")[:3]
    assert heading.split()[:2] == ["#Type", "#ProducerGroup"]
    assert (row.split()[0], row.split()[-1], blank) == ("Pub", "success", "")


# --- what a change hides
# --------------------------------------------------------------------------------------------------


def test_queues_that_nobody_is_given_are_told_beside_the_output(here: MqAdmin, gold: World) -> None:
    printed = here(*gold.words("updateTopic -b {b} -t Hidden -r 2 -w 4"))
    assert "readQueueNums=2, writeQueueNums=4" in printed.out
    assert "what is sent to the queues 2..3 is not given out" in printed.err
    assert here(*gold.words("updateTopic -b {b} -t Hidden -r 4 -w 4")).err == ""
