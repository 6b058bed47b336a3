"""Figures as people see them: best and median, marks, tables, the page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.catalog import catalog, chosen, load
from benchmarks.harness.figures import Figure, Report, Row, figure
from benchmarks.harness.sheets import markdown_table, sheets
from benchmarks.page import page

SEND = Row(
    benchmark="send",
    name="send 64x1",
    figures={
        "cpu": figure(
            "µs/message",
            [12, 10, 11],
            [6, 5, 7],
            mark=11.0,
            mark_ratio=1.9,
            original=28.0,
            pure=[17, 18],
            pure_mark=16.0,
        ),
        "user": figure("µs/message", [6, 5.5, 5], mark=5.2),
        "rate": figure(
            "messages/s", [80_000, 90_000, 70_000], [160_000], more_is_better=True, mark=75_000.0
        ),
        "p50": figure("µs", [20, 30, 25]),
    },
)
SCALE = Row(
    benchmark="scale_topics",
    name="against topics",
    figures={
        "1": figure("µs/message", [3]),
        "16": figure("µs/message", [4]),
        "6400": figure("µs/message", [5]),
    },
    note="topics",
)
BROKEN = Row(benchmark="pull", name="pull 32", failed="refused | why\nindeed")


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


@pytest.mark.parametrize(
    ("each", "best", "ratio", "reached"),
    [
        (figure("µs", [3, 2, 4], [1, 2], mark=2.0), 2, 2.0, True),
        (figure("µs", [3, 2, 4], [1, 2], mark=1.9), 2, 2.0, False),
        (figure("µs", [3, 2, 4], [1, 2], mark=2.0, mark_ratio=1.5), 2, 2.0, False),
        (figure("/s", [30, 20], [60], more_is_better=True, mark=25.0), 30, 2.0, True),
        (figure("/s", [30, 20], [60], more_is_better=True, mark=31.0), 30, 2.0, False),
        (figure("µs", [3]), 3, None, None),
    ],
)
def test_best_ratio_and_mark(
    each: Figure, best: float, ratio: float | None, reached: bool | None
) -> None:
    assert (each.best, each.ratio, each.is_reached) == (best, ratio, reached)


def test_a_row_of_messages_has_cpu_rate_and_latency() -> None:
    cpu, rate = sheets([SEND])
    ours = ["send 64x1", "10", "11", "5", "2.0", "≤ 11, ≤ 1.9 x floor", "✗", "5", "≤ 5.2", "✓"]
    assert cpu.lines == [[*ours, "28", "2.8", "17", "≤ 16", "✗"]]
    assert len(cpu.headings) == len(cpu.lines[0])
    assert rate.lines == [
        ["send 64x1", "90,000", "80,000", "160,000", "≥ 75,000", "✓", "", "25", "", "", ""]
    ]


def test_a_row_without_user_time_leaves_its_cells_empty() -> None:
    figures = {name: each for name, each in SEND.figures.items() if name != "user"}
    [line] = sheets([msgspec.structs.replace(SEND, figures=figures)])[0].lines
    assert line[7:10] == ["", "", ""]


def test_what_failed_is_told_and_breaks_no_table() -> None:
    [failed] = sheets([BROKEN])
    assert cells(markdown_table(failed))[2] == ["pull 32", "refused / why indeed"]


def test_sizes_are_a_table_of_their_own() -> None:
    [table] = sheets([SCALE])
    assert table.headings[0] == "topics"
    assert [line[0] for line in table.lines] == ["1", "16", "6,400"]


def test_the_page_has_every_row_and_the_charts_that_are_there(tmp_path: Path) -> None:
    charts = tmp_path / "performance"
    charts.mkdir()
    (charts / "scale-topics.svg").touch()
    text = page(
        Report(machine={"kernel": "Linux 1"}, rows=[SEND, SCALE, BROKEN], seconds=60.0), charts
    )
    part = text.partition("## Scale\n")[2].partition("\n## ")[0]
    assert "![against topics](performance/scale-topics.svg)" in part
    assert "| kernel | Linux 1 |" in text
    assert "| send 64x1 |" in text
    assert "refused / why indeed" in text


def test_a_report_outlives_its_file() -> None:
    report = Report(machine={}, rows=[SEND, SCALE, BROKEN], seconds=1.0)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_every_benchmark_of_the_catalog_is_there() -> None:
    for name, entry in catalog().items():
        if not name.startswith("spark_"):  # need Spark
            assert callable(load(entry)), name


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["send"], ["send"]),
        (["store_pull", "store_f"], ["store_pull", "store_flush"]),
        (["sync"], ["sync_flush", "sync_replication"]),
    ],
)
def test_names_and_beginnings_of_names(words: list[str], names: list[str]) -> None:
    assert chosen(words) == names


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"nothing is called sned; there are: send, batch"):
        chosen(["sned"])
