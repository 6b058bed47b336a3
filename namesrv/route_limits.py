"""How much brokers may have a name server know (ours; the original has no limits)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..remoting.errors import RequestError
from ..remoting.protocol.codes import ResponseCode
from ..remoting.protocol.commands.route import MAX_NAME

MOST_TOPICS: Final = 2_000_000
"""Unless somebody wants more. What copies the list of all topics holds the event loop for 20 ms
then."""
BYTES_PER_TOPIC: Final = 300
"""Of one broker: 270 were measured, with 1,000,000 topics of 24 characters."""
MAX_BROKERS: Final = 5000
"""Addresses, names with an id, names in a cluster: so many of each. What is known of all of them is
one answer (106), which takes 23 ms then."""
MAX_FILTER_SERVERS: Final = 1000


class RouteTableFullError(RequestError):
    """A registration would have the name server know more than it may."""

    def __init__(self, message: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, message)


def usual_topics(memory_bytes: int) -> int:
    """How many topics brokers may have together, each counted for each of its brokers, in a process
    that may use so much memory: a quarter of it is for them."""
    return min(MOST_TOPICS, memory_bytes // 4 // BYTES_PER_TOPIC)


def check_names(names: Iterable[str]) -> None:
    """Raises ``RouteTableFullError`` for one that is too long."""
    for name in names:
        if len(name) > MAX_NAME:
            raise RouteTableFullError(
                f"a name of {len(name)} characters, the limit is {MAX_NAME}: {name[:40]}..."
            )
