"""The timeline of a campaign as SVG: sends a second, latencies, and the faults as bands. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

_WIDTH: Final = 1100
_LEFT, _RIGHT, _TOP = 60, 20, 56
_HEIGHT: Final = 150
"""Of a panel."""
_GAP: Final = 46
_SANS: Final = 'font-family="sans-serif" font-size="11"'
_COLOURS: Final = {
    "killed": "#d62728", "stopped": "#ff9896", "still": "#9467bd", "slowly": "#c5b0d5",
    "isolated": "#1f77b4", "cut": "#6baed6", "slow": "#17becf", "full": "#8c564b",
    "lost": "#e377c2",
}  # fmt: skip
_OTHER: Final = "#7f7f7f"
_DECADES: Final = (1, 10, 100, 1000, 10_000)
_STEPS: Final = (5, 10, 30, 60, 120, 300, 600, 1200, 3600)


def picture(figures: Mapping[str, Any]) -> str:
    """Of the figures of a campaign."""
    return "\n".join(_svg(figures)) + "\n"


def colour(kind: str) -> str:
    """Of a kind of fault: the last of its words says what was done."""
    return _COLOURS.get(kind.rpartition(" ")[2], _OTHER)


def _svg(figures: Mapping[str, Any]) -> Iterator[str]:
    line, end = figures["timeline"], max(figures["seconds"], 1.0)
    bottom = _TOP + 2 * _HEIGHT + _GAP
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 40}" {_SANS}>')
    yield f'<rect width="{_WIDTH}" height="{bottom + 40}" fill="#ffffff"/>'
    yield f'<text x="{_LEFT}" y="16" font-size="13">{escape(_title(figures))}</text>'
    yield from _legend(figures["happened"])
    for kind, what, began, healed in figures["happened"]:
        left, right = _x(began, end), max(_x(healed, end), _x(began, end) + 1)
        yield (
            f'<rect x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}" '
            f'height="{bottom - _TOP}" fill="{colour(kind)}" fill-opacity="0.25">'
            f"<title>{escape(f'{kind}, {began:.1f} to {healed:.1f} s: {what}')}</title></rect>"
        )
    yield from _rates(line, end)
    yield from _latencies(line, end, _TOP + _HEIGHT + _GAP)
    yield from _time_axis(end, bottom)
    yield "</svg>"


def _title(figures: Mapping[str, Any]) -> str:
    sends, broken = figures["sends"], sum(figures["violations"].values())
    return (
        f"{figures['what']}: {sends['acknowledged']:,} acknowledged, "
        f"{len(figures['happened'])} faults, {broken} violations"
    )


def _x(second: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(second / end, 1.0)


def _legend(happened: Sequence[Sequence[Any]]) -> Iterator[str]:
    words = sorted({kind.rpartition(" ")[2] for kind, *_ in happened})
    for number, word in enumerate(words):
        left = _LEFT + 90 * number
        yield f'<rect x="{left}" y="24" width="12" height="10" fill="{colour(word)}"/>'
        yield f'<text x="{left + 16}" y="33">{escape(word)}</text>'


def _rates(line: Mapping[str, Sequence[Any]], end: float) -> Iterator[str]:
    most = max([1, *line["acknowledged"], *line["unknown"], *line["failed"]])
    base = _TOP + _HEIGHT

    def points(name: str) -> list[tuple[float, float]]:
        return [(n + 0.5, base - _HEIGHT * count / most) for n, count in enumerate(line[name])]

    yield _text(_LEFT, _TOP - 3, "sends a second: acknowledged; red: unknown or failed")
    for share in (0.0, 0.5, 1.0):
        yield from _level(base - _HEIGHT * share, f"{most * share:,.0f}")
    yield _path(points("acknowledged"), end, "#2ca02c")
    for name in ("unknown", "failed"):
        yield _path(points(name), end, "#d62728")


def _latencies(line: Mapping[str, Sequence[Any]], end: float, top: float) -> Iterator[str]:
    """Its axis is logarithmic."""
    decades = len(_DECADES) - 1

    def height(value: float) -> float:
        at, low = 0.0, 1.0
        while value > 10 * low and at < decades:
            at, low = at + 1, 10 * low
        return min(at + max(value / low - 1, 0) / 9, decades) * _HEIGHT / decades

    yield _text(_LEFT, top - 3, "latency of the acknowledged, ms: median, and 99th percentile")
    for value in _DECADES:
        yield from _level(top + _HEIGHT - height(value), f"{value:,}")
    for name, ink in (("p99_ms", "#ff7f0e"), ("p50_ms", "#1f77b4")):
        piece: list[tuple[float, float]] = []
        for second, value in enumerate([*line[name], None]):
            if value is not None:
                piece.append((second + 0.5, top + _HEIGHT - height(value)))
            elif piece:
                yield _path(piece, end, ink)
                piece = []


def _time_axis(end: float, bottom: float) -> Iterator[str]:
    step = next((each for each in _STEPS if end / each <= 15), _STEPS[-1])
    for second in range(0, int(end) + 1, step):
        yield _text(_x(second, end), bottom + 15, f"{second}", "middle")
    yield _text(_WIDTH - _RIGHT, bottom + 30, "seconds", "end")


def _level(y: float, label: str) -> Iterator[str]:
    yield (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
    )
    yield _text(_LEFT - 6, y + 4, label, "end")


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _path(points: Sequence[tuple[float, float]], end: float, ink: str) -> str:
    """``points``: seconds, and heights of the picture."""
    if len(points) == 1:
        [(second, y)] = points
        return f'<circle cx="{_x(second, end):.1f}" cy="{y:.1f}" r="1" fill="{ink}"/>'
    text = " ".join(f"{_x(second, end):.1f},{y:.1f}" for second, y in points)
    return f'<polyline points="{text}" fill="none" stroke="{ink}"/>'
