"""Write what is in ``docs/monitoring``, from the table of metrics: ``python docs/monitoring.py``
(``--check`` only names old files).

``README.md`` is ``page.template`` with the metrics and the runbooks in it, ``alerts.yml`` the rules
for Prometheus, ``dashboard.json`` what Grafana imports. One file: an alert, its panel and its
runbook change together.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from aiorocketmq.broker.monitoring.families import FAMILIES, PREFIX, Kind
from aiorocketmq.store.model.config import MessageStoreConfig

FOLDER: Final = Path(__file__).resolve().parent / "monitoring"
MADE: Final = "Made by docs/monitoring.py from the table of metrics; do not edit."
JOB: Final = "rocketmq"
"""Of the scrape, see the page."""

_STORE: Final = MessageStoreConfig()
FILLING: Final = _STORE.disk_max_used_space_ratio / 100
FORCED: Final = _STORE.disk_space_clean_forcibly_ratio / 100
REFUSING: Final = _STORE.disk_space_warning_level_ratio / 100

ALL_LAGS: Final = (
    "max by (cluster, node_id, topic, consumer_group) (rocketmq_consumer_lag_messages{at})"
)
"""A slave tells what its master does."""


def _lag(offset: str = "") -> str:
    return f"sum by (cluster, topic, consumer_group) ({ALL_LAGS.format(at=offset)})"


# --- alerts
# --------------------------------------------------------------------------------------------------


class Alert(NamedTuple):
    """A rule, and what whoever is woken by it reads."""

    name: str
    expr: str
    lasts: str
    """For how long before somebody is told."""
    severity: str
    """``critical``: messages are refused, lost or nowhere; wake somebody. ``warning``: by day."""
    summary: str
    means: str
    to_do: str


_AT: Final = "{{ $labels.node_id }} ({{ $labels.instance }})"

ALERTS: Final = (
    Alert(
        "RocketMQBrokerGone",
        f'up{{job="{JOB}"}} == 0',
        "1m",
        "critical",
        "The broker at {{ $labels.instance }} is not scraped",
        "Nothing answers at its metrics: the broker is down, hangs, or cannot be reached.",
        "`mqdoctor -n NAMESRV` from a client's machine tells which of them. Down: its log "
        "says why; start it again, what was acknowledged is there. A slave or a group goes on.",
    ),
    Alert(
        "RocketMQMessagesRefused",
        "max by (cluster, node_id) (rocketmq_storage_writeable) == 0",
        "1m",
        "critical",
        "{{ $labels.node_id }} takes no messages",
        "None of those with that name does: the master is gone, its disk is fuller than "
        f"{REFUSING:.0%} (`diskSpaceWarningLevelRatio`), or a sync failed. Reading goes on.",
        "See `storage_disk_ratio`. Full: make room, or lower `fileReservedTime`; sends go on by "
        "themselves. Not full: the log says `the disk failed`; repair it, then restart the broker.",
    ),
    Alert(
        "RocketMQSendsFail",
        "increase(rocketmq_put_failures_total[5m]) > 0",
        "5m",
        "warning",
        f"{_AT} could not store messages",
        "Sends were refused or failed: a full disk, flow control, messages that are too long.",
        "The broker's log and the senders' errors have the code: 2 busy, 13 the message, 14 the "
        "disk, 16 permissions.",
    ),
    Alert(
        "RocketMQDeadLettersOfBroker",
        "increase(rocketmq_dead_letters_total[1h]) > 0 or "
        "increase(rocketmq_skipped_messages_total[1h]) > 0",
        "1m",
        "warning",
        f"{_AT} set messages aside that it could not store where they belong",
        "A delayed message, a retry or half a transaction is refused by its topic and will be "
        "again: it is a dead letter now, or skipped.",
        "`message refused for good` in the log names topic and reason; see docs/operations.md, "
        "Dead letters.",
    ),
    Alert(
        "RocketMQPermissionTaken",
        "rocketmq_broker_permission < 6",
        "1h",
        "warning",
        f"{_AT} lets itself not be read and written",
        "`brokerPermission` is not 6: somebody kept clients away from it, and has not let them "
        "back.",
        "`mqadmin updateBrokerConfig -b HOST:PORT -k brokerPermission -v 6`, once the work there "
        "is done.",
    ),
    Alert(
        "RocketMQDiskFilling",
        f"rocketmq_storage_disk_ratio > {FILLING}",
        "10m",
        "warning",
        f"The disk of {_AT} is {{{{ $value | humanizePercentage }}}} full",
        f"From {FILLING:.0%} on (`diskMaxUsedSpaceRatio`) expired files go at any hour, which is "
        "not enough yet.",
        "Make room before the next step: other files on that disk, a shorter `fileReservedTime`, a "
        "larger disk, a further master.",
    ),
    Alert(
        "RocketMQDiskNearlyFull",
        f"rocketmq_storage_disk_ratio > {FORCED}",
        "2m",
        "critical",
        f"The disk of {_AT} is {{{{ $value | humanizePercentage }}}} full",
        f"From {FORCED:.0%} on (`diskSpaceCleanForciblyRatio`) the oldest files go whatever their "
        f"age: groups that are behind lose messages. From {REFUSING:.0%} on sends are refused.",
        "Make room now. Consumers that are behind: see whether they may hurry, or whether their "
        "messages are to be saved (`mqstore export`).",
    ),
    Alert(
        "RocketMQFlushSlow",
        "rocketmq_send_oldest_wait_seconds > 1 or histogram_quantile(0.99, sum by (cluster, "
        "node_id, instance, le) (rate(rocketmq_send_wait_seconds_bucket[5m]))) > 0.5",
        "2m",
        "warning",
        f"Senders wait {{{{ $value | humanizeDuration }}}} for the disk of {_AT}",
        "With SYNC_FLUSH or slaves that are waited for: the disk, or the copy, is slow. From "
        "`waitTimeMillsInSendQueue` (200 ms) on senders get code 2.",
        "`iostat -x 1` there; what else writes to it? A slave: see `replication_lag_bytes`.",
    ),
    Alert(
        "RocketMQEventLoopLate",
        "rocketmq_event_loop_lag_seconds > 0.5",
        "2m",
        "warning",
        f"{_AT} is {{{{ $value | humanizeDuration }}}} late",
        "The process has too much to do, gets no CPU, or its memory is swapped: all that it "
        "answers is late.",
        "CPU and memory of the process and of the machine; share topics with a further master.",
    ),
    Alert(
        "RocketMQCommitLogDamaged",
        "rocketmq_damaged_records_left > 0",
        "1m",
        "critical",
        f"{{{{ $value }}}} records of the commit log of {_AT} are damaged",
        "What is on the disk is not what was written. These messages are left out, all others are "
        "handed out. A slave or a member of a group mends itself from the others.",
        "Look at the disk (`dmesg`, SMART) and replace it. A master: `mqstore repair` with a "
        "slave's copy; see docs/operations.md, Rot.",
    ),
    Alert(
        "RocketMQSlaveBehind",
        f"rocketmq_replication_lag_bytes > {64 << 20}",
        "5m",
        "warning",
        f"The slave {{{{ $labels.slave }}}} of {_AT} is {{{{ $value | humanize1024 }}}}B behind",
        "What it lacks is lost when the master's disk is. SYNC_MASTER: senders wait for it.",
        "Its log, its disk, the network between the two.",
    ),
    Alert(
        "RocketMQSlaveGone",
        "rocketmq_replication_slaves < rocketmq_replication_slaves_wanted or "
        "rocketmq_replication_slaves < "
        "max_over_time(min_over_time(rocketmq_replication_slaves[5m])[1d:5m])",
        "5m",
        "warning",
        f"{_AT} has fewer slaves than it had, or than it waits for",
        "A slave is down, has never come, or cannot reach the master's `haListenPort` at "
        "`brokerIP2`. A SYNC_MASTER with fewer than `inSyncReplicas` answers sends with code 11.",
        "The slave's log names the reason. Taken away for good: quiet after a day, of a "
        "SYNC_MASTER once it is an ASYNC_MASTER or wants fewer.",
    ),
    Alert(
        "RocketMQGroupWithoutLeader",
        "max by (cluster, node_id) (rocketmq_raft_role) < 2",
        "30s",
        "critical",
        "The group {{ $labels.node_id }} has no leader",
        "Less than a majority of its members run and reach each other: nothing can be sent to it.",
        "`mqadmin raftStatus`; start the members that are down, see docs/raft.md. Nothing that was "
        "acknowledged is lost.",
    ),
    Alert(
        "RocketMQGroupElects",
        "increase(rocketmq_raft_elections_total[10m]) > 3",
        "1m",
        "warning",
        f"{_AT} stood {{{{ $value }}}} times within 10 minutes",
        "The leader is not heard in time: a network that loses packets, a machine or a disk that "
        "stands still.",
        "`event_loop_lag_seconds` of all members, and the network between them.",
    ),
    Alert(
        "RocketMQMemberBehind",
        "rocketmq_raft_lag_entries > 10000",
        "5m",
        "warning",
        f"The member {{{{ $labels.member }}}} is {{{{ $value }}}} entries behind {_AT}",
        "It is down or slow: with one more of that kind the group may stand still.",
        "Its log and disk; lost for good: docs/raft.md, replace a member.",
    ),
    Alert(
        "RocketMQMemberBeganElsewhere",
        "rocketmq_raft_old_log_differs > 0",
        "1m",
        "warning",
        f"{_AT} has another commit log from before its group than its leader",
        "A group was begun on logs that were not the same: messages that only some have come and "
        "go with who leads.",
        "The ERROR line in its log, and docs/raft.md: a disk is lost.",
    ),
    Alert(
        "RocketMQLagGrows",
        f"{_lag()} > 10000 and {_lag()} > {_lag(' offset 15m')}",
        "15m",
        "warning",
        "{{ $labels.consumer_group }} has {{ $value }} messages of {{ $labels.topic }} in front of "
        "it",
        "It has not consumed them, and they become more. What is older than `fileReservedTime` "
        "goes unread.",
        "`mqadmin consumerProgress -g GROUP`: one queue, a consumer that hangs; all, too few "
        "consumers or a slow handler. 10000 suits nobody: set it to what is normal for you.",
    ),
    Alert(
        "RocketMQNobodyConsumes",
        f"sum by (cluster, consumer_group) ({ALL_LAGS.format(at='')}) > 0 unless "
        "sum by (cluster, consumer_group) (rocketmq_consumer_connections) > 0",
        "15m",
        "warning",
        "Nobody of {{ $labels.consumer_group }} is connected, {{ $value }} messages wait",
        "All consumers of the group are down, or reach no broker.",
        "`mqdoctor -n NAMESRV -g GROUP` where they run. A group that is gone for good: "
        "`mqadmin deleteSubGroup -c CLUSTER -g GROUP -r true`, with its offsets.",
    ),
    Alert(
        "RocketMQDlqGrows",
        "increase(rocketmq_send_to_dlq_messages_total[10m]) > 0 or "
        "(rocketmq_send_to_dlq_messages_total unless rocketmq_send_to_dlq_messages_total offset "
        "10m) > 0",
        "1m",
        "warning",
        "Messages of {{ $labels.consumer_group }} went to its dead letter queue",
        "Its consumers failed with them 16 times, or gave them back for good.",
        "`mqadmin consumeMessage -t %DLQ%GROUP -s TIME` shows those since then; their consumers' "
        "log why. Mend it, "
        "then send them again: docs/nights.md, Dead letters.",
    ),
    Alert(
        "RocketMQClockOff",
        "abs(rocketmq_time_seconds - timestamp(rocketmq_time_seconds)) > 5",
        "2m",
        "warning",
        f"The clock of {_AT} is {{{{ $value | humanizeDuration }}}} off",
        "Compared with Prometheus' own. Times of messages, searches by time, traces and the age of "
        "files are off by as much.",
        "NTP on both machines (`chronyc tracking`).",
    ),
)


# --- the dashboard
# --------------------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """A graph: expressions, each with what its lines are called."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


_MINE: Final = 'cluster=~"$cluster",node_id=~"$node"'
_NODE: Final = "{{node_id}} {{instance}}"
_OF: Final = " of {{node_id}}"


def _series(name: str, more: str = "") -> str:
    """What a scrape has of a family, of the brokers that are chosen."""
    series = next(each for each in FAMILIES[name].series)
    return f"{series}{{{_MINE}{more}}}"


def _rate(
    name: str, legend: str = _NODE, by: str = "cluster, node_id, instance"
) -> tuple[str, str]:
    return f"sum by ({by}) (rate({_series(name)}[$__rate_interval]))", legend


def _value(name: str, legend: str = _NODE) -> tuple[str, str]:
    return _series(name), legend


def _max(name: str, by: str, legend: str) -> tuple[str, str]:
    return f"max by ({by}) ({_series(name)})", legend


def _top(name: str, by: str, legend: str) -> tuple[str, str]:
    return f"topk(10, sum by ({by}) (rate({_series(name)}[$__rate_interval])))", legend


def _of_process(expr: str) -> tuple[str, str]:
    return expr.replace("{}", f'{{job="{JOB}"}}'), "{{instance}}"


_TOPICS: Final = ("topic", "{{topic}}")
_GROUPS: Final = ("topic, consumer_group", "{{consumer_group}} {{topic}}")
_QUANTILE: Final = (
    "histogram_quantile({at}, sum by (node_id, instance, le) (rate("
    + _series("send_wait_seconds")
    + "[$__rate_interval])))"
)

ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Brokers": (
        Panel("Messages stored", "cps", (_rate("put_messages"),)),
        Panel("Bytes stored", "Bps", (_rate("put_bytes"),)),
        Panel("Messages handed out", "cps", (_rate("got_messages"),)),
        Panel("Bytes handed out", "Bps", (_rate("got_bytes"),)),
        Panel(
            "Refused, dead letters, skipped",
            "cps",
            (
                _rate("put_failures", "refused " + _NODE),
                _rate("dead_letters", "dead letters " + _NODE),
                _rate("skipped_messages", "skipped " + _NODE),
            ),
        ),
        Panel("Takes messages", "bool", (_value("storage_writeable"),)),
        Panel("Event loop late", "s", (_value("event_loop_lag_seconds"),)),
        Panel(
            "Groups online",
            "short",
            (
                _value("producer_groups", "producers " + _NODE),
                _value("consumer_groups", "consumers " + _NODE),
            ),
        ),
        Panel(
            "Clock against Prometheus'",
            "s",
            ((f"{_series('time_seconds')} - timestamp({_series('time_seconds')})", _NODE),),
        ),
    ),
    "Disk": (
        Panel("How full", "percentunit", (_value("storage_disk_ratio", "{{disk}} " + _NODE),)),
        Panel("Commit log", "bytes", (_value("storage_size_bytes"),)),
        Panel("Not on the disk yet", "bytes", (_value("storage_flush_behind_bytes"),)),
        Panel(
            "Senders wait for the disk",
            "s",
            (
                (_QUANTILE.replace("{at}", "0.5"), "50 % " + _NODE),
                (_QUANTILE.replace("{at}", "0.99"), "99 % " + _NODE),
                _value("send_oldest_wait_seconds", "oldest now " + _NODE),
            ),
        ),
        Panel("How many wait", "short", (_value("send_waiting"),)),
        Panel(
            "Damaged records",
            "short",
            (
                _value("damaged_records", "found " + _NODE),
                _value("mended_records", "mended " + _NODE),
                _value("damaged_records_left", "left " + _NODE),
            ),
        ),
    ),
    "Copies": (
        Panel(
            "Slaves connected",
            "short",
            (
                _value("replication_slaves"),
                _value("replication_slaves_wanted", "wanted " + _NODE),
            ),
        ),
        Panel("Slaves behind", "bytes", (_value("replication_lag_bytes", "{{slave}}" + _OF),)),
        Panel("Role in a group: 2 leader, 1 follower", "short", (_value("raft_role"),)),
        Panel(
            "Elections and terms",
            "short",
            (
                _value("raft_elections", "stood " + _NODE),
                _value("raft_term", "term " + _NODE),
            ),
        ),
        Panel("Members behind", "short", (_value("raft_lag_entries", "{{member}}" + _OF),)),
        Panel("Messages wait for a majority", "short", (_value("raft_waiting"),)),
    ),
    "Topics": (
        Panel("Messages in", "cps", (_top("messages_in", *_TOPICS),)),
        Panel("Bytes in", "Bps", (_top("throughput_in", *_TOPICS),)),
        Panel("Messages out", "cps", (_top("messages_out", *_GROUPS),)),
        Panel("Bytes out", "Bps", (_top("throughput_out", *_GROUPS),)),
    ),
    "Groups": (
        Panel(
            "Messages in front of them",
            "short",
            (
                (
                    "topk(10, sum by (topic, consumer_group) (max by (node_id, topic, "
                    f"consumer_group) ({_series('consumer_lag_messages')})))",
                    _GROUPS[1],
                ),
            ),
        ),
        Panel(
            "Consumers online",
            "short",
            (_max("consumer_connections", "consumer_group", "{{consumer_group}}"),),
        ),
        Panel(
            "Given back, given up",
            "cps",
            (
                _rate("send_back_messages", "back " + _GROUPS[1], _GROUPS[0]),
                _rate("send_to_dlq_messages", "dead {{consumer_group}}", "consumer_group"),
            ),
        ),
        Panel("Pulls", "cps", (_top("pulls", *_GROUPS),)),
        Panel(
            "Time of a pull",
            "s",
            (
                (
                    f"sum by ({_GROUPS[0]}) (rate({_series('pull_seconds')}[$__rate_interval])) / "
                    f"sum by ({_GROUPS[0]}) (rate({_series('pulls')}[$__rate_interval]))",
                    _GROUPS[1],
                ),
            ),
        ),
        Panel("Pulls that wait", "short", (_value("held_pulls"),)),
    ),
    "Process": (
        Panel(
            "CPU", "short", (_of_process("rate(process_cpu_seconds_total{}[$__rate_interval])"),)
        ),
        Panel("Memory", "bytes", (_of_process("process_resident_memory_bytes{}"),)),
        Panel("Files and connections", "short", (_of_process("process_open_fds{}"),)),
    ),
}

NOT_SHOWN: Final = {
    "broker_permission": "somebody changes it; the alert RocketMQPermissionTaken looks",
    "pulls_found": "the sum of what Pulls shows by group",
    "pulls_missed": "a consumer that waits at the end of a queue: says nothing about the broker",
    "raft_old_log_differs": "0, or somebody has to do something: the alert "
    "RocketMQMemberBeganElsewhere looks",
    "raft_committed_index": "only grows, as fast as messages are stored",
}


def dashboard() -> dict[str, Any]:
    """As Grafana imports it: asks for the data source, then shows all brokers."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(_header(title, y, len(panels) + 1))
        y += 1
        for place, panel in enumerate(row):
            at = {"h": 8, "w": 8, "x": place % 3 * 8, "y": y + place // 3 * 8}
            panels.append(_graph(panel, at, len(panels) + 1))
        y += -(-len(row) // 3) * 8
    return {
        "title": "RocketMQ",
        "uid": "aiorocketmq",
        "description": MADE,
        "tags": ["rocketmq"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), _choice("cluster", ""), _choice("node", _CHOSEN)]},
        "panels": panels,
    }


_CHOSEN: Final = '{cluster=~"$cluster"}'
_DATA: Final = {"type": "prometheus", "uid": "${source}"}


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _choice(name: str, of: str) -> dict[str, Any]:
    label = {"cluster": "cluster", "node": "node_id"}[name]
    query = f"label_values({PREFIX}time_seconds{of}, {label})"
    return {
        "name": name,
        "label": {"cluster": "Cluster", "node": "Broker"}[name],
        "type": "query",
        "datasource": _DATA,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _header(title: str, y: int, number: int) -> dict[str, Any]:
    at = {"h": 1, "w": 24, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "gridPos": at, "panels": []}


def _graph(panel: Panel, at: dict[str, int], number: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": "; ".join(dict.fromkeys(_texts_of(panel))),
        "datasource": _DATA,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": letter, "datasource": _DATA, "expr": expr, "legendFormat": name}
            for letter, (expr, name) in zip("ABCDEF", panel.lines, strict=False)
        ],
    }


def _texts_of(panel: Panel) -> Iterator[str]:
    for expr, _ in panel.lines:
        yield from (each.text for each in FAMILIES.values() if f"{each.series[0]}{{" in expr)


# --- files
# --------------------------------------------------------------------------------------------------


def rules() -> dict[str, Any]:
    """As ``rule_files`` of Prometheus names it."""
    return {
        "groups": [
            {
                "name": JOB,
                "rules": [
                    {
                        "alert": each.name,
                        "expr": each.expr,
                        "for": each.lasts,
                        "labels": {"severity": each.severity},
                        "annotations": {
                            "summary": each.summary,
                            "description": f"{each.means} {each.to_do}",
                            "runbook": f"docs/monitoring/README.md#{each.name.lower()}",
                        },
                    }
                    for each in ALERTS
                ],
            }
        ]
    }


def page() -> str:
    """``README.md``."""
    text = (FOLDER / "page.template").read_text(encoding="utf-8")
    for name, lines in (
        ("metrics", _metrics()),
        ("not_shown", (f"- `{PREFIX}{name}`: {why}" for name, why in NOT_SHOWN.items())),
        ("alerts", map(_line_of, ALERTS)),
        ("runbooks", _runbooks()),
    ):
        text = text.replace(f"@{name}@", "\n".join(lines))
    return text


def _line_of(alert: Alert) -> str:
    return f"| [{alert.name}](#{alert.name.lower()}) | {alert.severity} | {alert.lasts} |"


def _metrics() -> Iterator[str]:
    for each in FAMILIES.values():
        shown = PREFIX + each.name + ("_total" if each.kind is Kind.COUNTER else "")
        labels = ", ".join(f"`{label}`" for label in each.labels)
        yield f"| `{shown}` | {each.kind.value} | {labels} | {each.text} |"


def _runbooks() -> Iterator[str]:
    for each in ALERTS:
        yield from (f"### {each.name}", "", "```promql", each.expr, "```", "")
        yield from (f"**Means.** {each.means}", "", f"**Do.** {each.to_do}", "")


def files() -> dict[str, str]:
    """Name and content of all that is made."""
    made = json.dumps(dashboard(), indent=2, ensure_ascii=False)
    text = yaml.safe_dump(rules(), sort_keys=False, width=100, allow_unicode=True)
    return {
        "README.md": page().rstrip("\n") + "\n",
        "alerts.yml": f"# {MADE}\n{text}",
        "dashboard.json": made + "\n",
    }


def outdated() -> Iterator[str]:
    """Names of files that are not as they should be."""
    for name, text in files().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield name


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        old = list(outdated())
        for name in old:
            sys.stderr.write(f"docs/monitoring/{name} is old: python docs/monitoring.py\n")
        return 1 if old else 0
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
