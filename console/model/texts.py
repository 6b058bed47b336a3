"""Numbers and times as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

NONE: Final = "–"
"""In the place of what is not known."""
_DAY_MS: Final = 86_400_000


def number(text: str | None) -> float | None:
    """``None`` for what is no number to count with."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def whole(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else int(value)


def count(value: float | None) -> str:
    """``12,345``."""
    return NONE if value is None else f"{int(value):,}"


def rate(value: float | None) -> str:
    """Per second: ``0``, ``0.4``, ``1,234``."""
    if value is None:
        return NONE
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def percent(ratio: float | None) -> str:
    return NONE if ratio is None or ratio < 0 else f"{ratio * 100:.0f} %"


def size(size_bytes: int | None) -> str:
    """``0 B``, ``1.5 KiB``."""
    if size_bytes is None:
        return NONE
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def moment(time_ms: int | None) -> str:
    """``2026-11-21 13:14:15.123 UTC``."""
    if time_ms is None or time_ms <= 0:
        return NONE
    try:
        when = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{when:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} UTC"


def span(duration_ms: float | None) -> str:
    """``12 ms``, ``3.4 s``, ``5 min``, ``2 h``, ``3 days``."""
    if duration_ms is None:
        return NONE
    sign, value = ("−" if duration_ms < 0 else ""), abs(duration_ms)
    if value < 1000:
        return f"{sign}{value:.0f} ms"
    if value < 60_000:
        return f"{sign}{value / 1000:.1f} s"
    if value < 3_600_000:
        return f"{sign}{value / 60_000:.0f} min"
    if value < 2 * _DAY_MS:
        return f"{sign}{value / 3_600_000:.0f} h"
    return f"{sign}{value / _DAY_MS:.0f} days"


def parse_moment(text: str) -> int:
    """Ms since 1970, of such a number, of ``2026-11-21 13:14[:15]`` or ``2026-11-21T13:14``, which
    are UTC. Raises ``ValueError`` that says so."""
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    try:
        when = datetime.fromisoformat(text.removesuffix("UTC").strip())
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text[:40]!r} is no time: write 2026-11-21 13:14:15 (UTC), or ms since 1970"
        ) from None
