"""What all parts agree on: which topics there are, what is in them, and how long things may take.

Apart from the job, so that who sends needs no Spark.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

ORDER: Final = {"number": "bigint", "at": "timestamp", "category": "string", "cents": "bigint"}
PAYMENT: Final = {"number": "bigint", "at": "timestamp", "method": "string"}
"""Fields and their types in Spark; all have to be there. ``number`` is the order's in both."""

WINDOW: Final = timedelta(minutes=5)
PAID_WITHIN: Final = timedelta(minutes=5)
"""A payment that comes later does not count."""
LATENESS: Final = timedelta(minutes=15)
"""How far a row may be behind the newest one of its topic. Less: results come sooner, but Spark
drops what is later than that. More: results come later, and more state is kept."""


class Topics(NamedTuple):
    """Names of topics."""

    orders: str
    payments: str
    revenue: str
    """The results."""
    dead: str
    """Messages that are no rows."""

    @classmethod
    def named(cls, prefix: str) -> Topics:
        return cls(*(prefix + name for name in ("Orders", "Payments", "Revenue", "DeadRows")))
