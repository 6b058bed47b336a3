"""Tables: the original's bytes into a pipe, fitted on a terminal. No cluster is needed."""

import io
import json
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from aiorocketmq.client.admin.brokers import members_of
from aiorocketmq.remoting.protocol.bodies.connection import ClientConnection, ConsumerConnection
from aiorocketmq.remoting.protocol.bodies.heartbeat import ConsumeType, MessageModel
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, ClusterInfo
from aiorocketmq.tools.mqadmin import commands
from aiorocketmq.tools.mqadmin.commands import cluster, consumer, message, topic
from aiorocketmq.tools.mqadmin.output import Layout, Output

from .golden_steps import step

LAYOUTS = [
    (topic.BY_CLUSTER, "topicList -c"),
    (topic.STATUS, "topicStatus -t GoldNormal"),
    (cluster.BASE, "clusterList"),
    (cluster.MORE, "clusterList -m"),
    (consumer.PROGRESS, "consumerProgress -g GID_gold_tag"),
    (consumer.GROUPS, "consumerProgress"),
    (message.SENT, "sendMessage -t GoldNormal -p from mqadmin -k admk -c admt"),
]


@pytest.mark.parametrize(
    ("layout", "name"),
    LAYOUTS,
    ids=[name.split()[0] + str(n) for n, (_, name) in enumerate(LAYOUTS)],
)
def test_headers_and_rows_as_the_original_prints_them(layout: Layout, name: str) -> None:
    """Every row of the golden table, taken apart and printed again."""
    header, *rows = (line for line in step(name).splitlines() if line.strip())
    assert layout.header_line() == header
    for row in rows:
        if not row.startswith(("Consume TPS", "Diff Total")):
            assert layout.row_line(*cells_of(row, layout)) == row


def cells_of(row: str, layout: Layout) -> list[str]:
    """The values of a printed row: read at the widths of the layout, or to the next blank where it
    is wider."""
    found, rest = [], row
    for part in re.findall(r"%(-?\d*)s( *)", layout.row):
        width = abs(int(part[0] or 0)) or len(rest)
        while width < len(rest) and rest[width - 1] != " " and rest[width] != " ":
            width += 1
        found.append(rest[:width].strip())
        rest = rest[width + len(part[1]) :]
    return found


def printed(layout: Layout, rows: list[tuple[object, ...]], *, terminal: bool) -> str:
    stream = io.StringIO()
    output = Output(stream, terminal=terminal)
    with output.table(layout) as table:
        for row in rows:
            table.row(*row)
    output.close()
    return stream.getvalue()


ROWS: list[tuple[object, ...]] = [
    ("broker-a", 0, 0, 12345, "2026-11-20 22:10:24,481"),
    ("broker-b", 11, 7, 7, ""),
]


def test_a_pipe_gets_padded_columns() -> None:
    lines = printed(topic.STATUS, ROWS, terminal=False).splitlines()
    assert lines[1] == f"{'broker-a':<32}  {0:<4}  {0:<20}  {12345:<20}    2026-11-20 22:10:24,481"


def test_a_terminal_gets_a_fitted_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = printed(topic.STATUS, ROWS, terminal=True).splitlines()
    assert lines[0].split() == [
        "Broker",
        "Name",
        "QID",
        "Min",
        "Offset",
        "Max",
        "Offset",
        "Last",
        "Updated",
    ]
    assert lines[1].split() == ["broker-a", "0", "0", "12345", "2026-11-20", "22:10:24,481"]
    assert max(map(len, lines)) <= 70
    assert lines[1].index("12345") + 5 == lines[2].rindex("7") + 1, (
        "numbers are aligned at their last digit"
    )


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_a_narrow_terminal_cuts_nothing_off(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    row = (
        "DefaultCluster",
        "broker-with-a-long-name",
        0,
        "192.168.100.200:10911",
        "V4_9_8",
        "12.50(0,0ms)",
    )
    cells = (*row, "37.00(0,0ms)", 0, "48.21", "0.2600")
    lines = printed(cluster.BASE, [cells], terminal=True).splitlines()
    assert max(map(len, lines)) <= columns
    of_the_row = " ".join(lines[len(lines) // 2 :]).split()
    assert of_the_row == [str(cell) for cell in cells], "none is broken"
    (titles,) = (line for line in lines if "Addr" in line)
    (values,) = (line for line in lines if "192.168.100.200:10911" in line)
    assert values.index("192.168.100.200:10911") == titles.index("Addr"), "below its title"
    if columns == 140:
        assert lines[1].split() == [str(cell) for cell in cells]


def layouts() -> Iterator[tuple[str, Layout]]:
    """All tables of ``mqadmin``."""
    for module in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
        for name, found in vars(import_module(module.name)).items():
            if isinstance(found, Layout) and name.isupper():
                yield f"{module.name.rpartition('.')[2]}.{name}", found


@pytest.mark.parametrize(("name", "layout"), list(layouts()))
def test_no_table_breaks_names_and_addresses(
    monkeypatch: pytest.MonkeyPatch, name: str, layout: Layout
) -> None:
    """Of a terminal with 80 columns, whatever column they are in."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    rows: list[tuple[object, ...]] = [
        tuple(
            (f"192.168.100.{row}{column}:10911", f"a-broker-with-a-long-name-{row}{column}")[
                (row + column) % 2
            ]
            for column in range(len(layout.headings))
        )
        for row in range(2)
    ]
    text = printed(layout, rows, terminal=True)
    assert max(map(len, text.splitlines())) <= 80
    assert {str(cell) for row in rows for cell in row} <= set(text.split())


def test_a_total_is_set_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for terminal, rule in ((False, "-----"), (True, "────────")):
        stream = io.StringIO()
        with Output(stream, terminal=terminal).table(Layout(("#A",), row="%s")) as table:
            table.row("x")
            table.rule("-----")
            table.row("y")
        assert [line.strip() for line in stream.getvalue().splitlines()][1:] == ["x", rule, "y"]


def test_newline_at_the_end_only_on_a_terminal() -> None:
    for terminal, text in ((False, "success"), (True, "success\n")):
        stream = io.StringIO()
        output = Output(stream, terminal=terminal)
        output.text("success")
        output.close()
        assert stream.getvalue() == text


def test_peers_cannot_steer_the_terminal() -> None:
    for terminal, text in ((False, "\x1b[2Jgrüße\n"), (True, "\\x1b[2Jgrüße\n")):
        stream = io.StringIO()
        Output(stream, terminal=terminal).line("\x1b[2Jgrüße")
        assert stream.getvalue() == text


# --- cells
# --------------------------------------------------------------------------------------------------


def test_cells_of_a_broker() -> None:
    figures = {
        "brokerVersionDesc": "V4_9_8",
        "putTps": "12.5 10.0 8.0",
        "getTransferedTps": "37.005 1.0 1.0",
        "sendThreadPoolQueueSize": "3",
        "sendThreadPoolQueueHeadWaitTimeMills": "7",
        "pullThreadPoolQueueSize": "0",
        "pullThreadPoolQueueHeadWaitTimeMills": "0",
        "pageCacheLockTimeMills": "2",
        "earliestMessageTimeStamp": "1000",
        "commitLogDiskRatio": "0.26",
    }
    cells = cluster.base_cells(figures, now_ms=1000 + 48 * 3_600_000)
    assert cells == ("V4_9_8", "    12.50(3,7ms)", "    37.01(0,0ms)", "2", "48.00", "0.2600")


def test_cells_of_a_broker_that_does_not_answer() -> None:
    nothing = "     0.00(,ms)"
    assert cluster.base_cells({}, now_ms=5) == ("", nothing, nothing, "", "0.00", "0.0000")
    assert cluster.total_cells({}) == (0, 0, 0, 0)


def test_a_store_without_messages_is_as_old_as_time() -> None:
    assert (
        cluster.base_cells({"earliestMessageTimeStamp": "-1"}, now_ms=1795212622614)[4]
        == "498670.17"
    )


def test_totals_of_yesterday_and_today() -> None:
    figures = {
        f"msg{way}Total{when}": str(n)
        for way in ("Put", "Get")
        for n, when in ((5, "YesterdayMorning"), (7, "TodayMorning"))
    }
    assert cluster.total_cells(
        {**figures, "msgPutTotalTodayNow": "17", "msgGetTotalTodayNow": "x"}
    ) == (2, 2, 10, -7)


def test_members_are_sorted_and_gone_brokers_left_out() -> None:
    info = ClusterInfo(
        broker_addr_table={
            "b": BrokerData(broker_name="b", broker_addrs={1: "b1", 0: "b0"}),
            "a": BrokerData(broker_name="a", broker_addrs={0: "a0"}),
        },
        cluster_addr_table={"C2": ("a",), "C1": ("b", "a", "gone")},
    )
    found = [(m.cluster, m.broker_name, m.broker_id, m.address) for m in members_of(info)]
    assert found == [
        ("C1", "a", 0, "a0"),
        ("C1", "b", 0, "b0"),
        ("C1", "b", 1, "b1"),
        ("C2", "a", 0, "a0"),
    ]


def test_cells_of_a_group() -> None:
    clients = (
        ClientConnection(client_id="x", version=409),
        ClientConnection(client_id="y", version=399),
    )
    push = ConsumerConnection(
        connection_set=clients,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.BROADCASTING,
    )
    pull = ConsumerConnection(
        connection_set=clients[:1],
        consume_type=ConsumeType.CONSUME_ACTIVELY,
        message_model=MessageModel.CLUSTERING,
    )
    count, version, *rest = consumer.connection_cells(push)
    assert (count, rest) == (2, ["PUSH", "BROADCASTING"])
    assert str(version) < "V4_9_8", "the lowest version counts"
    assert consumer.connection_cells(pull) == (1, "V4_9_8", "PULL", "")
    assert (
        consumer.connection_cells(ConsumerConnection())
        == consumer.connection_cells(None)
        == (0, "OFFLINE", "", "")
    )


def test_json_has_nothing_that_a_terminal_obeys() -> None:
    """Nor what turns the text beside it around; the values are the same."""
    said = "topic \x1b[2J\x7f\x9b\u202e\U000e0001 ü\n"
    stream = io.StringIO()
    out = Output(stream, terminal=True, as_json=True)
    out.fact("name", said)
    out.add_row({said: 1})
    out.close()
    text = stream.getvalue()
    assert text.replace("\n", "").isprintable()
    assert text.count("\n") == 8
    assert "ü" in text
    assert json.loads(text) == {"name": said, "rows": [{said: 1}]}
