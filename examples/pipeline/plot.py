"""Lines over time as SVG, to stand in a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

_WIDTH, _HEIGHT = 900, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 15, 26, 34
_INKS: Final = ("#1f77b4", "#ff7f0e")
_STEPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)

Points = Sequence[tuple[float, float]]
"""Seconds and values."""


class Band(NamedTuple):
    """A stretch of time that is marked in all plots."""

    name: str
    begin: float
    end: float


def plot(title: str, lines: dict[str, Points], bands: Sequence[Band], end: float) -> str:
    """From second 0 to ``end``, and from 0 to the largest value."""
    most = max([1.0, *(value for points in lines.values() for _, value in points)])
    return "\n".join(_svg(title, lines, bands, max(end, 1.0), most))


def _svg(
    title: str, lines: dict[str, Points], bands: Sequence[Band], end: float, most: float
) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / end

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / most

    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    for band in bands:
        width = x(band.end) - x(band.begin)
        yield (
            f'<rect class="band" x="{x(band.begin):.1f}" y="{_TOP}" width="{width:.1f}" '
            f'height="{bottom - _TOP}"/>'
        )
        yield _text(x(band.begin) + 4, _TOP + 14, band.name)
    yield _text(_LEFT, 16, title)
    for number, name in enumerate(lines if len(lines) > 1 else ()):
        yield _text(_WIDTH - _RIGHT - 130 * number, 16, name, "end", _INKS[number])
    for value in (0, most / 2, most):
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        yield _text(_LEFT - 6, y(value) + 4, f"{value:,.0f}", "end")
    step = next((each for each in _STEPS if end / each <= 15), _STEPS[-1])
    for mark in range(0, int(end) + 1, step):
        yield _text(x(mark), bottom + 16, str(mark), "middle")
    yield _text(_WIDTH - _RIGHT, bottom + 30, "seconds", "end")
    for ink, points in zip(_INKS, lines.values(), strict=False):
        for piece in _pieces(points, bands):
            path = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in piece)
            yield f'<polyline points="{path}" stroke="{ink}"/>'
        for second, value in points:
            yield f'<circle cx="{x(second):.1f}" cy="{y(value):.1f}" r="2" fill="{ink}"/>'
    yield "</svg>"


def _pieces(points: Points, bands: Sequence[Band]) -> Iterator[Points]:
    """No line goes through a band."""
    piece: list[tuple[float, float]] = []
    for point in points:
        if piece and any(piece[-1][0] <= band.begin < point[0] for band in bands):
            yield piece
            piece = []
        piece.append(point)
    yield piece


def _text(x: float, y: float, text: str, anchor: str = "start", ink: str = "#333333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}">{escape(text)}</text>'
    )
