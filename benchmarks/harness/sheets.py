"""Rows as tables: the same cells for the terminal and for the page. Pure."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

from .figures import Figure, Row

_LATENCIES = ("p50", "p99", "p999")


class Sheet(NamedTuple):
    """A table; the first column stands to the left."""

    title: str
    headings: list[str]
    lines: list[list[str]]


def sheets(rows: list[Row], *, wide: bool = False) -> list[Sheet]:
    """CPU time, rates, other figures, sizes, and what failed; those that have lines. ``wide``: a
    table for each row."""
    good = [row for row in rows if not row.failed]
    scales = [row for row in good if wide or ("cpu" not in row.figures and len(row.figures) > 2)]
    found = [
        Sheet(
            "CPU time per message, µs",
            _CPU,
            [_cpu_line(r, r.figures["cpu"]) for r in good if "cpu" in r.figures],
        ),
        Sheet(
            "Rates and latencies",
            _RATE,
            [_rate_line(r, r.figures["rate"]) for r in good if "rate" in r.figures],
        ),
        Sheet(
            "Figures", _OTHER, [line for r in good if r not in scales for line in _other_lines(r)]
        ),
        *(_scale(row) for row in scales),
        Sheet(
            "Failed",
            ["what", "why"],
            [[r.name, r.failed.replace("|", "/").replace("\n", " ")] for r in rows if r.failed],
        ),
    ]
    return [sheet for sheet in found if sheet.lines]


def rich_table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for place, heading in enumerate(sheet.headings):
        table.add_column(heading, justify="right" if place and sheet.title != "Failed" else "left")
    for line in sheet.lines:
        table.add_row(*line)
    return table


def markdown_table(sheet: Sheet) -> str:
    rule = ["---", *(["---:"] * (len(sheet.headings) - 1))]
    return "\n".join(
        "| " + " | ".join(cells) + " |" for cells in (sheet.headings, rule, *sheet.lines)
    )


_CPU = [
    "what", "best", "median", "floor", "x floor", "mark", "", "user", "mark", "", "original",
    "x less",
    "pure Python", "mark", "",
]  # fmt: skip
_RATE = [
    "what",
    "messages/s",
    "median",
    "floor",
    "mark",
    "",
    "original",
    "p50 µs",
    "p99",
    "p99.9",
    "p50 of the floor",
]
_OTHER = ["what", "best", "median", "unit", "floor", "mark", "", "original", "the floor is"]


def _cpu_line(row: Row, cpu: Figure) -> list[str]:
    marks = [f"≤ {text(cpu.mark)}"] if cpu.mark is not None else []
    marks += [f"≤ {cpu.mark_ratio:.3g} x floor"] if cpu.mark_ratio is not None else []
    return [
        _named(row), text(cpu.best), text(cpu.median), text(cpu.floor_best), _times(cpu.ratio),
        ", ".join(marks),
        _MARKED[cpu.is_reached], *_user(row.figures.get("user")), text(cpu.original),
        _times(cpu.original / cpu.best if cpu.original and cpu.best else None), text(cpu.pure_best),
        "" if cpu.pure_mark is None or not cpu.pure else f"≤ {text(cpu.pure_mark)}",
        _MARKED[cpu.is_reached_pure],
    ]  # fmt: skip


def _user(user: Figure | None) -> list[str]:
    if user is None:
        return ["", "", ""]
    return [
        text(user.best),
        "" if user.mark is None else f"≤ {text(user.mark)}",
        _MARKED[user.is_reached],
    ]


def _rate_marks(rate: Figure) -> str:
    marks = [f"≥ {text(rate.mark)}"] if rate.mark else []
    marks += [f"≥ {1 / rate.mark_ratio:.0%} of the floor"] if rate.mark_ratio else []
    return ", ".join(marks)


def _rate_line(row: Row, rate: Figure) -> list[str]:
    times = [row.figures.get(name) for name in _LATENCIES]
    p50 = times[0]
    return [
        _named(row), text(rate.best), text(rate.median), text(rate.floor_best),
        _rate_marks(rate), _MARKED[rate.is_reached], text(rate.original),
        *(text(each.median) if each else "" for each in times),
        text(p50.floor_best) if p50 else "",
    ]  # fmt: skip


def _other_lines(row: Row) -> list[list[str]]:
    lines = []
    for name, each in row.figures.items():
        if name in ("cpu", "user", "rate") or (name in _LATENCIES and each.mark is None):
            continue
        label = row.name if name in ("value", "seconds") else f"{row.name}, {name}"
        mark = (
            f"{'≥' if each.more_is_better else '≤'} {text(each.mark)}"
            if each.mark is not None
            else ""
        )
        lines.append([
            label, text(each.best), text(each.median), each.unit, text(each.floor_best), mark,
            _MARKED[each.is_reached],
            text(each.original), row.floor_is,
        ])  # fmt: skip
    return lines


def _scale(row: Row) -> Sheet:
    lines = [
        [
            f"{int(size):,}" if size.isdigit() else size,
            text(each.best),
            text(each.median),
            text(each.floor_best),
        ]
        for size, each in row.figures.items()
    ]
    unit = next(iter(row.figures.values())).unit
    return Sheet(row.name, [row.note or "size", f"best, {unit}", "median", "floor"], lines)


def _named(row: Row) -> str:
    return f"{row.name} ({row.note})" if row.note else row.name


_MARKED = {None: "", True: "✓", False: "✗"}


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def text(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"
