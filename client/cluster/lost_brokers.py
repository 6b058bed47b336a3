"""Brokers that died, as name servers of ours remember them (``namesrv/lost_brokers.py``): under
which names they are asked for, and what to say of one. Others know no such namespaces. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["LOST_BROKERS", "LOST_BROKERS_OF_TOPIC", "how_to_forget", "when_lost"]

LOST_BROKERS: Final = "LOST_BROKERS"
"""Namespace: broker name -> its last sign of life, ms since 1970."""
LOST_BROKERS_OF_TOPIC: Final = "LOST_BROKERS_OF_TOPIC"
"""Namespace: topic -> ``<broker name>=<ms>``, separated by ``;``."""


def when_lost(since_ms: str) -> str:
    """`` at <time>``; nothing for what is no time."""
    try:
        return f" at {datetime.fromtimestamp(int(since_ms) / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return ""


def how_to_forget(broker_name: str) -> str:
    return f"gone for good? mqadmin deleteKvConfig -s {LOST_BROKERS} -k {broker_name}"
