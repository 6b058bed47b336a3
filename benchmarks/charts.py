"""Charts of ``scale``: CPU time per message against size, the broker's and the floor's, as SVG
(needs ``[bench]``)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .harness.figures import Report, Row

_INCHES = (7.0, 3.6)
_OURS, _FLOOR = "#1f5fa8", "#999999"


def chart_name(row: Row) -> str:
    """The file of a row's chart."""
    return f"{row.benchmark.replace('_', '-')}.svg"


def scale_rows(report: Report) -> list[Row]:
    """Those that charts are made of."""
    return [row for row in report.rows if row.benchmark.startswith("scale_") and row.figures]


def draw(report: Report, folder: Path) -> list[Path]:
    """A chart for each row of ``scale``; none, and a word about it, where matplotlib is not
    installed."""
    rows = scale_rows(report)
    if not rows:
        return []
    try:
        import matplotlib as mpl
    except ImportError:
        print("no charts: make bench installs matplotlib", file=sys.stderr)
        return []
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "aiorocketmq", "svg.fonttype": "none", "font.size": 10})
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(row, folder / chart_name(row), report.machine) for row in rows]


def _draw(row: Row, path: Path, machine: dict[str, str]) -> Path:
    from matplotlib.figure import Figure

    canvas = Figure(figsize=_INCHES, layout="constrained")
    axes: Any = canvas.subplots()
    sizes = [int(size) for size in row.figures]
    places = range(len(sizes))
    ours = list(row.figures.values())
    axes.plot(places, [each.best for each in ours], "o-", color=_OURS, label="broker, best round")
    axes.fill_between(
        places,
        [each.best for each in ours],
        [max(each.ours) for each in ours],
        color=_OURS,
        alpha=0.15,
        label="all rounds",
    )
    if all(each.floor for each in ours):
        axes.plot(
            places,
            [each.floor_best for each in ours],
            "s--",
            color=_FLOOR,
            label="floor (C), best round",
        )
    axes.set_xticks(list(places), [f"{size:,}" for size in sizes])
    axes.set_xlabel(row.note)
    axes.set_ylabel(ours[0].unit)
    axes.set_ylim(bottom=0, top=max(max(each.ours) for each in ours) * 1.25)
    axes.set_title(row.name, fontsize=10)
    axes.legend(loc="upper left", fontsize=8, ncols=3, frameon=False)
    axes.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    label = (
        f"{machine.get('date', '')}, {machine.get('processor', '')}, "
        f"{machine.get('Python', '').partition(',')[0]}"
    )
    axes.annotate(
        label, (1, -0.2), xycoords="axes fraction", ha="right", fontsize=6, color="#777777"
    )
    canvas.savefig(path, metadata={"Date": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return path
