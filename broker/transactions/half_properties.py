"""The properties of half messages: what the broker adds when one comes, and what it reads when it
ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ...remoting.protocol.message.properties import PropertyName, decode_properties, tags_code_of
from ..sends.placement import delay_level

_UNIQUE_KEY: Final = f"{PropertyName.UNIQ_KEY}\x01"
_MAX_KNOWN_LENGTH: Final = 500


class Destination(NamedTuple):
    """What a half message says of its transaction."""

    group: str
    """PGROUP: whose it is."""
    topic: str
    """REAL_TOPIC, REAL_QID: where its message goes. A broken queue id is queue 0."""
    queue_id: int
    delayed: bool
    """It carries a delay level."""
    waits: bool
    """The producer wants its answers when the message is safe."""


def to_store(
    text: str, cluster_name: str, topic: str, queue_id: int
) -> tuple[bytes, int, Destination]:
    """What a producer sent, WAIT too, with what the broker adds; its tags code; what
    ``destination_of`` will find in it. Of two values of a name the last one counts: nobody can
    forge where a message goes.

    Raises ``MessageError`` for a delay level that is no number: after the commit nobody could be
    told.
    """
    unique_key, _, rest = text.partition("\x02")
    if unique_key.startswith(_UNIQUE_KEY) and rest and len(rest) <= _MAX_KNOWN_LENGTH:
        stored, tags_code, destination = _known(rest, cluster_name, topic, queue_id)
        return f"{unique_key}\x02".encode() + stored, tags_code, destination
    return _worked_out(text, cluster_name, topic, queue_id)


def _worked_out(
    text: str, cluster_name: str, topic: str, queue_id: int
) -> tuple[bytes, int, Destination]:
    pairs = decode_properties(text)
    delay_level(pairs)
    added = {
        PropertyName.CLUSTER: cluster_name,
        PropertyName.REAL_TOPIC: topic,
        PropertyName.REAL_QID: str(queue_id),
    }
    stored = (text + "".join(f"\x02{name}\x01{value}" for name, value in added.items())).encode()
    return stored, tags_code_of(stored), _destination(pairs | added)


_known: Final = lru_cache(maxsize=10_000)(_worked_out)
"""Half messages of one producer and queue mostly differ in their unique key only, which stands
first: 0.6 µs, not 3."""


def destination_of(raw: bytes) -> Destination:
    """What the properties of a half message say of its transaction."""
    return _destination(decode_properties(raw))


def _destination(pairs: Mapping[str, str]) -> Destination:
    queue_id = pairs.get(PropertyName.REAL_QID, "")
    return Destination(
        group=pairs.get(PropertyName.PGROUP, ""),
        topic=pairs.get(PropertyName.REAL_TOPIC, ""),
        queue_id=int(queue_id)
        if queue_id.isascii() and queue_id.isdigit() and len(queue_id) < 10
        else 0,
        delayed=PropertyName.DELAY in pairs,
        waits=pairs.get(PropertyName.WAIT) != "false",
    )
