"""What a history is made of. Pure.

A send begins with ``Invoke`` and ends with ``Ok``, ``Fail`` or ``Unknown``, all of one ``op``;
``Read`` is a message that an observer was handed, ``Ends`` where a node said that a queue ends,
``Leads`` a node's word that it leads a term, ``Serves`` that it is the one to ask, or no longer.
Times are seconds of one clock, the same for all events; a queue has the name that the recorder
gives it (``broker/0``) and belongs to one topic. Contents are what a body says, shortened to what
tells it apart; two sends of one history never have the same.

As text a history is a line of JSON per event, with its kind first::

    {"type":"invoke","at":0.25,"op":7,"producer":"p1","content":"p1-7","queue":"g/0"}
    {"type":"ok","at":0.31,"op":7,"queue":"g/0","offset":4}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec


class Invoke(msgspec.Struct, frozen=True, gc=False, tag="invoke", kw_only=True):
    """A producer begins to send."""

    at: float
    op: int
    producer: str
    content: str
    queue: str | None = None
    """Where it wants it; None: anywhere."""
    topic: str = ""
    once: bool = False
    """Each attempt is told of: there is one, but for ``Again``."""


class Again(msgspec.Struct, frozen=True, gc=False, tag="again", kw_only=True):
    """A further attempt of the same send begins."""

    at: float
    op: int


class Ok(msgspec.Struct, frozen=True, gc=False, tag="ok", kw_only=True):
    """It was acknowledged."""

    at: float
    op: int
    queue: str
    offset: int


class Fail(msgspec.Struct, frozen=True, gc=False, tag="fail", kw_only=True):
    """It is certain that it was not stored, and never will be."""

    at: float
    op: int


class Unknown(msgspec.Struct, frozen=True, gc=False, tag="unknown", kw_only=True):
    """Nobody can tell. Without any end it is the same."""

    at: float
    op: int


class Read(msgspec.Struct, frozen=True, gc=False, tag="read", kw_only=True):
    """An observer, a consumer or one who asks a certain node, was handed a message."""

    at: float
    observer: str
    queue: str
    offset: int
    content: str


class Ends(msgspec.Struct, frozen=True, gc=False, tag="ends", kw_only=True):
    """A node was asked since ``began`` for a queue, and said that its next offset is this one."""

    at: float
    began: float
    node: str
    queue: str
    offset: int


class Leads(msgspec.Struct, frozen=True, gc=False, tag="leads", kw_only=True):
    """A node says that it is the leader of a term."""

    at: float
    node: str
    term: int


class Serves(msgspec.Struct, frozen=True, gc=False, tag="serves", kw_only=True):
    """From now on a node shows all that has been acknowledged before; ``ends``: it says so no
    longer. Another one that leads a later term ends it as well."""

    at: float
    node: str
    ends: bool = False


Event = Invoke | Again | Ok | Fail | Unknown | Read | Ends | Leads | Serves

_decode: Final = msgspec.json.Decoder(Event).decode
_encode: Final = msgspec.json.Encoder().encode


def to_lines(events: Iterable[Event]) -> bytes:
    """As text."""
    return b"".join(_encode(event) + b"\n" for event in events)


def from_lines(text: bytes) -> Iterator[Event]:
    """Back from text. Raises ``msgspec.DecodeError``."""
    return map(_decode, text.splitlines())
