"""Brokers that died, as name servers of ours remember them (``namesrv/lost_brokers.py``): under
which names they are asked for, and what to say of one. Others know no such namespaces. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["LOST_BROKERS", "LOST_BROKERS_OF_TOPIC", "how_to_forget", "lost_in", "when_lost"]

LOST_BROKERS: Final = "LOST_BROKERS"
"""Namespace: broker name -> its last sign of life, ms since 1970."""
LOST_BROKERS_OF_TOPIC: Final = "LOST_BROKERS_OF_TOPIC"
"""Namespace: topic -> ``<broker name>=<ms>``, separated by ``;``."""


def lost_in(value: str | None) -> dict[str, str]:
    """What a name server says of a topic: broker name -> its last sign of life, ms since 1970."""
    entries = [entry.partition("=") for entry in value.split(";")] if value else []
    return {name: since_ms for name, _, since_ms in entries}


def when_lost(since_ms: str) -> str:
    """`` at <time>``; nothing for what is no time."""
    try:
        return f" at {datetime.fromtimestamp(int(since_ms) / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return ""


def how_to_forget(broker_name: str) -> str:
    return f"gone for good? mqadmin deleteKvConfig -s {LOST_BROKERS} -k {broker_name}"
