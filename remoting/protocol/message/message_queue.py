"""The name of a queue."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker (master and its slaves share the name)."""

    topic: str
    broker_name: str
    queue_id: int
