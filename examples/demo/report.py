"""The table at the end."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .job import Group, Outcome, queue_text
from .source import Source
from .tally import Verdict, judge

_MOST_TAGS = 16


def print_report(console: Console, source: Source, outcome: Outcome) -> bool:
    """Show how it went. Returns whether it went well: nothing lost, the filter exact, every queue
    in order."""
    everyone = judge(outcome.sent, outcome.everyone.received)
    filtered = judge(outcome.sent, outcome.filtered.received, outcome.filtered.expression)
    console.print()
    console.print(_consumers(outcome, everyone, filtered))
    console.print(_tags(outcome))
    console.print(_summary(source, outcome, everyone, filtered), soft_wrap=True)
    good = everyone.good and filtered.good and not outcome.failed
    if not good:
        problems = _what_is_wrong(outcome, everyone, filtered)
        console.print(f"Not as it should be: {problems}", style="bold red", soft_wrap=True)
    return good


def _consumers(outcome: Outcome, everyone: Verdict, filtered: Verdict) -> Table:
    table = Table(title="Consumers", title_justify="left")
    table.add_column("consumer")
    table.add_column("tags")
    table.add_column("queues")
    for name in ("received", "expected", "lost", "duplicated", "unordered"):
        table.add_column(name, justify="right")
    for group, verdict in ((outcome.everyone, everyone), (outcome.filtered, filtered)):
        many = len(group.consumers) > 1
        for name in group.consumers:
            mine = (
                name,
                group.expression,
                queue_text(outcome.queues[name]),
                _n(group.received.per_consumer[name]),
            )
            table.add_row(*mine, *(() if many else _numbers(verdict)))
        if many:
            names = " + ".join(group.consumers)
            table.add_row(
                names, "", "", _n(group.received.per_consumer.total()), *_numbers(verdict)
            )
        table.add_section()
    return table


def _numbers(verdict: Verdict) -> tuple[str, ...]:
    return tuple(
        map(_n, (verdict.expected, verdict.lost, verdict.duplicated, verdict.out_of_order))
    )


def _tags(outcome: Outcome) -> Table:
    table = Table(title="Tags", title_justify="left")
    table.add_column("tag")
    for name in (
        "sent",
        *(" + ".join(group.consumers) for group in (outcome.everyone, outcome.filtered)),
    ):
        table.add_column(name, justify="right")
    tags = sorted(outcome.sent.tags, key=lambda tag: -outcome.sent.confirmed[tag])
    shown, rest = (
        (tags, []) if len(tags) <= _MOST_TAGS else (tags[: _MOST_TAGS - 1], tags[_MOST_TAGS - 1 :])
    )
    for title, group in [
        *((tag or "(none)", [tag]) for tag in shown),
        *([(f"{len(rest)} others", rest)] if rest else []),
    ]:
        counts = (
            outcome.sent.confirmed,
            outcome.everyone.received.per_tag,
            outcome.filtered.received.per_tag,
        )
        table.add_row(title, *(_n(sum(count[tag] for tag in group)) for count in counts))
    return table


def _summary(source: Source, outcome: Outcome, everyone: Verdict, filtered: Verdict) -> str:
    sent, send_s, total_s = outcome.sent.total, outcome.send_s, outcome.total_s
    received = outcome.everyone.received.distinct + outcome.filtered.received.distinct
    left_out = f"; {_n(len(source.bad_rows))} of the file left out" if source.bad_rows else ""
    return (
        f"rows sent   {_n(sent)}{left_out}\n"
        f"lost        {_n(everyone.lost + filtered.lost)}\n"
        f"duplicated  {_n(everyone.duplicated + filtered.duplicated)}\n"
        f"throughput  {sent / max(send_s, 1e-9):,.0f} rows/s sent in {send_s:.2f} s, "
        f"{received / max(total_s, 1e-9):,.0f} rows/s received in {total_s:.2f} s"
    )


def _what_is_wrong(outcome: Outcome, everyone: Verdict, filtered: Verdict) -> str:
    found = []
    if outcome.failed:
        found.append(
            f"{_n(outcome.failed)} rows could not be sent (the first at {outcome.failure})"
        )
    for group, verdict in ((outcome.everyone, everyone), (outcome.filtered, filtered)):
        found += [
            f"{_n(count)} {what} in the group {group.name}"
            for what, count in _wrongs(group, verdict)
            if count
        ]
    return "; ".join(found)


def _wrongs(group: Group, verdict: Verdict) -> list[tuple[str, int]]:
    return [
        ("rows lost", verdict.lost),
        (f"rows that do not have the tag {group.expression}", verdict.unexpected),
        ("rows out of order", verdict.out_of_order),
    ]


def _n(count: int) -> str:
    return f"{count:,}"
