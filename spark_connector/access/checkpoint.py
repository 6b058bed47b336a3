"""What a checkpoint of Spark says of a stream: offsets, and what else has to be known to go on from
them. Pure.

The first form is offsets alone (``offsets.to_json``). Where there is more, it stands beside the
topics, under names that no topic can have::

    {"#form": "2: ...",
     "#origin": {"time": 1764249461000, "brokers": ["broker-a"]},
     "#begins": {"Orders": {"broker-b": {"0": 5617}}},
     "#marks": {"Orders": {"broker-a": {"0": 22, "1": 6}}},
     "#stored": {"Orders": {"broker-a": {"0": 1764249461123}}},
     "#gone": {"Orders": {"broker-a": {"1": 1764249461456}}},
     "Orders": {"broker-a": {"0": 23, "1": 7}, "broker-b": {"0": 5700}}}

A version that knows only the first form refuses it: it takes ``#form`` for a topic whose value is
no object. This one reads both. One that does not know all of the names refuses it, too: what they
say would be lost with the next batch. A file of its own beside the checkpoint is no alternative:
Spark tells a source written in Python no path, and a batch that runs again must find what it found
before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...client.errors import ConfigError
from ...remoting.protocol.message.message_queue import MessageQueue
from . import offsets as first_form
from .offsets import Offsets

__all__ = ["Checkpoint", "Mark", "Origin", "from_json", "to_json"]

_FORM: Final = "2: a later version of aiorocketmq wrote this checkpoint"
_FACTS: Final = {"#origin", "#begins", "#marks", "#stored", "#gone"}


class Origin(NamedTuple):
    """Where a query began that does not read what was there before."""

    time_ms: int
    """Messages that were stored earlier are not of the query."""
    brokers: frozenset[str]
    """Those that were there: what is found on them later was made later."""


class Mark(NamedTuple):
    """The message before an offset, by which a queue is told from another one of the same name."""

    queue_offset: int
    time_ms: int
    """When it was stored, by the clock of the broker ..."""
    is_gone: bool = False
    """... or, by that of the driver, half an hour before it was found to be too old to be kept. In
    this queue it was stored earlier; what has its number and was stored later is of another one."""

    @property
    def unread_ms(self) -> int:
        """What was stored from then on was not read."""
        return self.time_ms if self.is_gone else self.time_ms + 1


@dataclass(frozen=True)
class Checkpoint:
    """The end of a batch, which is the start of the next one."""

    offsets: Offsets
    origin: Origin | None = None
    """``None``: a queue that is found later is read from its beginning."""
    begins: Offsets = field(default_factory=dict)
    """Where the batch that ends here begins, in queues that do not go on where the one before
    ended: the first batch in all of them."""
    marks: dict[MessageQueue, Mark] = field(default_factory=dict)

    def starts(self, before: Mapping[MessageQueue, int]) -> Offsets:
        """Where the batch that ends here begins, when the one before ended at ``before``."""
        return {**before, **self.begins}


def to_json(checkpoint: Checkpoint) -> dict[str, object]:
    """As Spark keeps it; always in the same order, because Spark compares texts."""
    plain = first_form.to_json(checkpoint.offsets)
    facts: dict[str, object] = {}
    if (origin := checkpoint.origin) is not None:
        facts["#origin"] = {"time": origin.time_ms, "brokers": sorted(origin.brokers)}
    if checkpoint.begins:
        facts["#begins"] = first_form.to_json(checkpoint.begins)
    if checkpoint.marks:
        marks = checkpoint.marks
        facts["#marks"] = first_form.to_json({q: mark.queue_offset for q, mark in marks.items()})
        for name, is_gone in (("#stored", False), ("#gone", True)):
            if times := {q: mark.time_ms for q, mark in marks.items() if mark.is_gone is is_gone}:
                facts[name] = first_form.to_json(times)
    return {"#form": _FORM, **facts, **plain} if facts else {**plain}


def from_json(table: object) -> Checkpoint:
    """What ``to_json`` made, of either form. Raises ``ConfigError`` for anything else."""
    if not isinstance(table, dict) or "#form" not in table:
        return Checkpoint(first_form.from_json(table))
    facts = {name: value for name, value in table.items() if name.startswith("#")}
    if facts.pop("#form") != _FORM or facts.keys() - _FACTS:
        raise ConfigError(
            "the checkpoint is of a form that this version does not know: go on with the version "
            f"that wrote it, or a later one ({table['#form']!r})"
        )
    plain = {name: value for name, value in table.items() if not name.startswith("#")}
    begins, marks, stored, gone = (
        first_form.from_json(facts.get(name, {}))
        for name in ("#begins", "#marks", "#stored", "#gone")
    )
    return Checkpoint(
        first_form.from_json(plain),
        _origin(facts["#origin"]) if "#origin" in facts else None,
        begins,
        {
            queue: Mark(marks[queue], time_ms, is_gone)
            for times, is_gone in ((stored, False), (gone, True))
            for queue, time_ms in times.items()
            if queue in marks
        },
    )


def _origin(value: object) -> Origin:
    match value:
        case {"time": int(time_ms), "brokers": list(names)} if time_ms >= 0:
            if all(isinstance(name, str) for name in names):
                return Origin(time_ms, frozenset(names))
    raise ConfigError(f"the checkpoint does not tell where the query began: {value!r}")
