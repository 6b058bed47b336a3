"""What a stream says of itself in the progress of its query, as the ``latestOffset`` of its source.
Pure.

Spark takes no name and no metrics from a source that is written in Python, but shows what that
reports as the latest offset, whatever it is. So beside the topics stands what else is worth seeing,
under names that no topic can have::

    {"#source": "RocketMQ[Subscribe[Orders]]",
     "#losses": {"times": 1, "messages": 1900},
     "#away": ["broker-b"],
     "Orders": {"broker-a": {"0": 23}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client.errors import ConfigError
from . import offsets as offset_json
from .offsets import Offsets
from .options import SourceOptions

__all__ = ["Seen", "from_json", "name_of", "to_json"]


@dataclass(frozen=True)
class Seen:
    """When a batch was planned."""

    latest: Offsets
    """The latest that were seen."""
    source: str = ""
    """A name for who reads it."""
    losses: int = 0
    """How often something could not be read any more, since the query was started."""
    lost_messages: int = 0
    """How many that were, as far as brokers tell; before any filter."""
    away: frozenset[str] = field(default_factory=frozenset)
    """Brokers whose queues wait."""


def name_of(options: SourceOptions) -> str:
    """What is read, in the words of Kafka's source."""
    if options.topic_pattern is not None:
        what = f"SubscribePattern[{options.topic_pattern}]"
    elif options.assigned:
        queues = sorted(f"{q.topic}/{q.broker_name or '*'}/{q.queue_id}" for q in options.assigned)
        what = f"Assign[{', '.join(queues)}]"
    else:
        what = f"Subscribe[{', '.join(options.topics)}]"
    return f"RocketMQ[{what}]"


def to_json(seen: Seen) -> dict[str, object]:
    """As Spark shows it."""
    facts: dict[str, object] = {
        "#source": seen.source,
        "#losses": {"times": seen.losses, "messages": seen.lost_messages},
        "#away": sorted(seen.away),
    }
    return {**facts, **offset_json.to_json(seen.latest)}


def from_json(table: object) -> Seen:
    """What ``to_json`` made, or offsets alone. Raises ``ConfigError`` for anything else."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"this is no latest offset of a source of ours: {table!r}")
    latest = offset_json.from_json({n: each for n, each in table.items() if not n.startswith("#")})
    match table:
        case {
            "#source": str(source),
            "#losses": {"times": int(times), "messages": int(messages)},
            "#away": list(away),
        }:
            return Seen(latest, source, times, messages, frozenset(map(str, away)))
        case _:
            return Seen(latest)
