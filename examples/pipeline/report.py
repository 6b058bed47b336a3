"""The page at the end: one file of HTML with everything in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final, NamedTuple

from .check import Check, Outcome
from .driver import Progress, offsets
from .orders import START, Inputs
from .plot import Band, plot

_STYLE: Final = """
body { font: 15px/1.5 sans-serif; max-width: 920px; margin: 2em auto; color: #333 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em 1em .2em 0 }
th { text-align: left } td.n { text-align: right } tr { border-bottom: 1px solid #ddd }
.good { color: #2a7d2a } .bad { color: #c00; font-weight: bold }
svg { width: 100%; font: 11px sans-serif } line { stroke: #ddd } polyline { fill: none }
polyline { stroke-width: 1.5 } .band { fill: #d62728; fill-opacity: .15 }
"""
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Pipeline</title><style>{style}</style></head>
<body>
{body}
</body></html>
"""


class Story(NamedTuple):
    """What happened."""

    inputs: Inputs
    progress: list[Progress]
    down: tuple[float, float]
    """When there was no driver, in seconds since 1970."""
    seconds: float
    """All in all."""


def page(story: Story, outcome: Outcome) -> str:
    """The whole of it."""
    verdict = "Everything is as it should be." if outcome.good else "Not as it should be."
    parts = [
        "<h1>A pipeline from topics to a topic and files</h1>",
        f'<p class="{"good" if outcome.good else "bad"}">{verdict}</p>',
        _table(("", "checked", "found"), (_row(each) for each in outcome.checks)),
        _table(("", ""), _facts(story, outcome).items()),
        "<h2>Over time</h2>",
        *_plots(story),
        "<h2>Dead rows</h2>",
        _table(("reason", "messages"), outcome.reasons.most_common()),
        "<h2>Revenue</h2>",
        _table(
            ("window and category", "orders", "revenue"),
            (
                (name, orders, f"{cents / 100:,.2f}")
                for name, (orders, cents) in sorted(outcome.revenue.items())
            ),
        ),
    ]
    return _PAGE.format(style=_STYLE, body="\n".join(parts))


def _row(check: Check) -> tuple[str, str, str]:
    return "yes" if check.good else "NO", check.what, check.found


def _facts(story: Story, outcome: Outcome) -> dict[str, str]:
    sent = story.inputs.sent()
    batches = [each for each in story.progress if each["name"] == "revenue"]
    return {
        "messages sent": f"{len(sent):,}",
        "of them with a delay": f"{sum(message.delay_level > 0 for message in sent):,}",
        "micro-batches of the join": f"{len(batches):,}",
        "no driver for": f"{story.down[1] - story.down[0]:.1f} s",
        "all in all": f"{story.seconds:.0f} s",
    }


def _plots(story: Story) -> list[str]:
    """Of the query with the join. A micro-batch stands where it began."""
    batches = [each for each in story.progress if each["name"] == "revenue"]
    began = _seconds(batches[0])
    moments = [_seconds(each) - began for each in batches]
    end = moments[-1] + batches[-1]["batchDuration"] / 1000
    since, until = story.down
    bands = [Band("no driver", since - began, until - began)]

    def line(values: Iterable[float | None]) -> list[tuple[float, float]]:
        return [(at, each) for at, each in zip(moments, values, strict=True) if each is not None]

    lag = line(_lag(each) for each in batches)
    rate = line(each["processedRowsPerSecond"] for each in batches)
    watermark = line(_minutes(each, "watermark") for each in batches)
    newest = line(_minutes(each, "max") for each in batches)
    state = line(sum(s["numRowsTotal"] for s in each["stateOperators"]) for each in batches)
    return [
        plot("lag: messages that wait when a micro-batch begins", {"": lag}, bands, end),
        plot("throughput: messages a second in a micro-batch", {"": rate}, bands, end),
        plot(
            "event time, minutes since the first order",
            {"watermark": watermark, "newest row": newest},
            bands,
            end,
        ),
        plot("rows kept in state", {"": state}, bands, end),
    ]


def _lag(progress: Progress) -> float | None:
    """A micro-batch that is done again after a restart does not know how much there is by now."""
    sources = progress["sources"]
    if not all(source["latestOffset"] for source in sources):
        return None
    return sum(
        offsets(source, "latestOffset").total() - offsets(source, "startOffset").total()
        for source in sources
    )


def _seconds(progress: Progress) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def _minutes(progress: Progress, which: str) -> float | None:
    """A watermark is at the beginning of 1970 until there is one."""
    if (text := progress.get("eventTime", {}).get(which)) is None:
        return None
    since = datetime.fromisoformat(text) - START
    return since.total_seconds() / 60 if since.days >= 0 else None


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_cells("th", heads), *(_cells("td", row) for row in rows)]
    return "\n".join(["<table>", *(f"<tr>{line}</tr>" for line in lines), "</table>"])


def _cells(kind: str, values: Sequence[object]) -> str:
    """Numbers stand on the right, a NO in red."""
    marks = {"NO": ' class="bad"', "yes": ' class="good"'}
    return "".join(
        f'<{kind} class="n">{value:,}</{kind}>'
        if isinstance(value, int)
        else f"<{kind}{marks.get(str(value), '')}>{escape(str(value))}</{kind}>"
        for value in values
    )
