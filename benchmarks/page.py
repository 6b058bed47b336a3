"""``docs/performance.md``: an introduction by hand (``page_intro.md``), and all figures of a
run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .catalog import catalog
from .charts import chart_name, scale_rows
from .harness.figures import Report, Row
from .harness.sheets import markdown_table, sheets

_INTRO = Path(__file__).with_name("page_intro.md")


def page(report: Report, charts: Path | None = None) -> str:
    """The whole page. ``charts``: the folder with the charts, beside the page; those that are there
    are shown."""
    drawn = {path.name for path in charts.glob("*.svg")} if charts else set()
    return "\n".join(_lines(report, charts.name if charts else "", drawn)).rstrip() + "\n"


def _lines(report: Report, folder: str, drawn: set[str]) -> Iterator[str]:
    yield _INTRO.read_text(encoding="utf-8")
    yield "## The machine\n"
    yield "| | |\n| --- | --- |"
    for name, value in (report.machine | {"took": f"{report.seconds / 60:.1f} minutes"}).items():
        yield f"| {name} | {value} |"
    yield ""
    known = catalog()
    parts = dict.fromkeys(
        known[row.benchmark].part if row.benchmark in known else "Other" for row in report.rows
    )
    for part in parts:
        rows = [
            row
            for row in report.rows
            if (known[row.benchmark].part if row.benchmark in known else "Other") == part
        ]
        yield f"## {part}\n"
        yield from _part(rows)
        yield from _charts(report, rows, folder, drawn)


def _part(rows: list[Row]) -> Iterator[str]:
    for sheet in sheets(rows):
        yield f"**{sheet.title}**\n"
        yield markdown_table(sheet)
        yield ""


def _charts(report: Report, rows: list[Row], folder: str, drawn: set[str]) -> Iterator[str]:
    for row in scale_rows(report):
        if row in rows and chart_name(row) in drawn:
            yield f"![{row.name}]({folder}/{chart_name(row)})\n"
