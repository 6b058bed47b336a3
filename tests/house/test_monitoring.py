"""The dashboard and the alerts (``docs/monitoring``) speak of metrics that exist, with labels that
these have, in PromQL; and they leave none out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NoReturn

import promql_parser
import pytest
import yaml

from aiorocketmq.broker.monitoring.families import FAMILIES, OWN, PREFIX, Family, Kind
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.tools.mqadmin.__main__ import run
from aiorocketmq.tools.mqadmin.command import EXIT_FAILED
from aiorocketmq.tools.mqadmin.shell import Shell

from ..pages import loaded
from .test_docs import DOCS, anchors_of

FOLDER: Final = DOCS / "monitoring"
OF_PROMETHEUS: Final = {"instance", "job"}
"""What it puts to all that it scrapes."""
OTHERS: Final = {
    "up",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
}
"""Of Prometheus, and of the process."""
BY_SERIES: Final = {name: family for family in FAMILIES.values() for name in family.series}
OVER_TIME: Final = ("rate", "increase")
"""For what only grows."""


@pytest.fixture(scope="module")
def monitoring() -> ModuleType:
    return loaded("monitoring")


class Wrong(Exception):
    """What is wrong with an expression."""


def labels_of(expr: Any) -> set[str]:
    """Of what it gives. Raises ``Wrong``."""
    match expr:
        case promql_parser.VectorSelector():
            return _selected(expr)
        case promql_parser.MatrixSelector():
            return _selected(expr.vector_selector)
        case promql_parser.SubqueryExpr():
            return labels_of(expr.expr)
        case promql_parser.AggregateExpr():
            return _aggregated(expr)
        case promql_parser.Call():
            return _called(expr)
        case promql_parser.BinaryExpr():
            sides = [each for side in (expr.lhs, expr.rhs) if (each := labels_of(side))]
            return set.intersection(*sides) if sides else set()
        case promql_parser.ParenExpr():
            return labels_of(expr.expr)
        case promql_parser.NumberLiteral():
            return set()
        case _:
            raise Wrong(f"{type(expr).__name__} is not looked into")


def _selected(selector: Any) -> set[str]:
    name, family = selector.name, BY_SERIES.get(selector.name)
    if family is None and name not in OTHERS:
        raise Wrong(f"there is no metric {name}")
    labels = OF_PROMETHEUS | (set() if family is None else _own(family, name))
    for each in selector.matchers.matchers:
        if each.name not in labels:
            raise Wrong(f"{name} has no label {each.name}")
    return labels


def _own(family: Family, name: str) -> set[str]:
    return {*OWN, *family.labels, *(["le"] if name.endswith("_bucket") else [])}


def _aggregated(expr: Any) -> set[str]:
    labels = labels_of(expr.expr)
    if expr.modifier is None:
        return labels if "topk" in str(expr.op) else set()
    wanted = set(expr.modifier.labels)
    if wanted - labels:
        raise Wrong(f"there are no labels {wanted - labels}")
    return wanted


def _called(expr: Any) -> set[str]:
    name = expr.func.name
    if name in OVER_TIME:
        family = BY_SERIES.get(expr.args[0].vector_selector.name)
        if family is not None and family.kind is Kind.GAUGE:
            raise Wrong(f"{name} of {family.name}, which is a gauge")
    labels = set().union(*map(labels_of, expr.args))
    if name == "histogram_quantile":
        if "le" not in labels:
            raise Wrong("histogram_quantile needs le")
        labels -= {"le"}
    return labels


def checked(text: str) -> set[str]:
    """Labels of what an expression gives. Raises ``Wrong``; ``ValueError`` for what is no
    PromQL."""
    return labels_of(promql_parser.parse(text.replace("$__rate_interval", "5m")))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("rocketmq_put_messages", "no metric"),
        ('rocketmq_raft_role{topic="T"}', "no label topic"),
        ("sum by (member) (rocketmq_raft_role)", "no labels"),
        ("rate(rocketmq_raft_role[5m])", "a gauge"),
        ("histogram_quantile(0.9, rate(rocketmq_send_wait_seconds_sum[5m]))", "needs le"),
        ("-rocketmq_raft_role", "not looked into"),
    ],
)
def test_the_check_sees_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(Wrong, match=wrong):
        checked(text)
    with pytest.raises(ValueError, match=r".+"):
        checked(f"{text} and )")


def test_files_are_up_to_date(monitoring: ModuleType) -> None:
    assert list(monitoring.outdated()) == [], "run: python docs/monitoring.py"


def test_alerts() -> None:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    rules = group["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 15
    anchors = anchors_of(FOLDER / "README.md")
    for rule in rules:
        labels = checked(rule["expr"])
        promql_parser.parse_duration(rule["for"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        notes = rule["annotations"]
        assert notes["runbook"].partition("#")[2] in anchors
        told = set(re.findall(r"\$labels\.(\w+)", notes["summary"]))
        assert told, "who is told of it wants to know where"
        assert told <= labels, rule["alert"]
        assert len(re.findall(r"\{\{", notes["summary"])) == len(
            re.findall(r"\{\{ \$(?:labels\.\w+|value(?: \| \w+)?) \}\}", notes["summary"])
        )


def test_commands_of_runbooks_can_be_typed_as_they_stand(
    monitoring: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked: what is wrong with a command itself is told before that."""

    def nobody(_shell: Shell) -> NoReturn:
        raise RocketMQError("nobody is asked")

    monkeypatch.setattr(Shell, "admin", nobody)
    told = "\n".join(f"{each.means} {each.to_do}" for each in monitoring.ALERTS)
    commands = re.findall(r"`mqadmin ([^`]+)`", told)
    assert len(commands) > 4
    for command in commands:
        words = command.replace("HOST:PORT", "127.0.0.1:1").replace("TIME", "1").split()
        assert run([*words, "-n", "127.0.0.1:1"]) == EXIT_FAILED, command


def test_a_slave_that_never_came_is_gone_too() -> None:
    """A SYNC_MASTER without it has no history in which there are more."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    (rule,) = (rule for rule in group["rules"] if rule["alert"] == "RocketMQSlaveGone")
    either: Any = promql_parser.parse(rule["expr"])
    now = either.lhs
    assert str(either.op) == "or"
    assert str(now.op) == "<"
    assert (now.lhs.name, now.rhs.name) == (
        "rocketmq_replication_slaves",
        "rocketmq_replication_slaves_wanted",
    )


def test_a_slave_that_was_there_for_a_moment_is_not_missed() -> None:
    """One connection of a slave is not gone yet when its next one is there."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    (rule,) = (rule for rule in group["rules"] if rule["alert"] == "RocketMQSlaveGone")
    expr: Any = promql_parser.parse(rule["expr"])
    before = expr.rhs.rhs
    assert before.func.name == "max_over_time"
    (subquery,) = before.args
    assert subquery.expr.func.name == "min_over_time"


def panels() -> Iterator[dict[str, Any]]:
    yield from json.loads((FOLDER / "dashboard.json").read_text())["panels"]


def test_panels() -> None:
    graphs = [panel for panel in panels() if panel["type"] == "timeseries"]
    assert len(graphs) > 20
    for panel in graphs:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            labels = checked(target["expr"])
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel


def test_panels_have_numbers_and_places_of_their_own() -> None:
    seen: set[tuple[int, int]] = set()
    numbers = []
    for panel in panels():
        numbers.append(panel["id"])
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & seen, panel["title"]
        assert at["x"] + at["w"] <= 24
        seen |= cells
    assert len(set(numbers)) == len(numbers)


def test_every_metric_is_shown_or_not_for_a_reason(monitoring: ModuleType) -> None:
    exprs = " ".join(t["expr"] for panel in panels() for t in panel.get("targets", ()))
    shown = {family.name for name, family in BY_SERIES.items() if re.search(rf"\b{name}\b", exprs)}
    hidden = monitoring.NOT_SHOWN
    assert shown | hidden.keys() == FAMILIES.keys()
    assert not shown & hidden.keys()
    assert all(len(reason) > 20 for reason in hidden.values())


def test_no_line_of_a_panel_is_left_out(monitoring: ModuleType) -> None:
    lines = sum(len(panel.lines) for row in monitoring.ROWS.values() for panel in row)
    assert lines == sum(len(panel.get("targets", ())) for panel in panels())


def test_a_metric_that_is_new_is_not_forgotten(monitoring: ModuleType) -> None:
    """Nor one that is gone."""
    assert set(re.findall(r"rocketmq_\w+", (FOLDER / "alerts.yml").read_text())) <= set(BY_SERIES)
    page = (FOLDER / "README.md").read_text()
    assert all(f"| `{PREFIX}{name}" in page for name in FAMILIES)
