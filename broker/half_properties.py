"""The properties of half messages: what the broker adds when one comes, and what it reads when it ends.

Half messages of one producer and queue mostly differ in their unique key only, which stands first: what stands behind it is
worked out once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..remoting.protocol.index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST
from ..remoting.protocol.properties import PropertyName, decode_properties, tags_code_of
from .placement import delay_level

_UNIQUE_KEY: Final = UNIQUE_KEY_FIRST.decode()
_MAX_KNOWN: Final = 10_000
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


class HalfProperties:
    """For one broker."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name: Final = cluster_name
        self._tails: dict[tuple[str, int, str], tuple[bytes, int, Destination]] = {}
        self._destinations: dict[bytes, Destination] = {}

    def to_store(self, text: str, topic: str, queue_id: int) -> tuple[bytes, int, Destination]:
        """What a producer sent, WAIT too, with what the broker adds; its tags code; what ``read`` will find
        in it. Of two values of a name the last one counts: nobody can forge where a message goes.

        Raises ``MessageError`` for a delay level that is no number: after the commit nobody could be told.
        """
        first, _, rest = text.partition("\x02")
        if not rest or not first.startswith(_UNIQUE_KEY):
            delay_level(decode_properties(text))
            stored = f"{text}{self._suffix(topic, queue_id)}".encode()
            return stored, tags_code_of(stored), _destination(stored)
        own = first.encode()
        known = self._tails.get((topic, queue_id, rest)) if len(own) > UNIQUE_KEY_AT else None
        if known is None:
            delay_level(decode_properties(text))
            tail = f"\x02{rest}{self._suffix(topic, queue_id)}".encode()
            known = tail, tags_code_of(tail), _destination(own + tail)
            if len(rest) <= _MAX_KNOWN_LENGTH and len(own) > UNIQUE_KEY_AT:
                if len(self._tails) >= _MAX_KNOWN:
                    self._tails.clear()
                self._tails[topic, queue_id, rest] = known
        tail, tags_code, destination = known
        return own + tail, tags_code, destination

    def _suffix(self, topic: str, queue_id: int) -> str:
        names = {
            PropertyName.CLUSTER: self._cluster_name,
            PropertyName.REAL_TOPIC: topic,
            PropertyName.REAL_QID: str(queue_id),
        }
        return "".join(f"\x02{name}\x01{value}" for name, value in names.items())

    def read(self, raw: bytes) -> Destination:
        """What the properties of a half message say of its transaction."""
        first, _, rest = raw.partition(b"\x02")
        if not first.startswith(UNIQUE_KEY_FIRST) or len(first) == UNIQUE_KEY_AT:
            return _destination(raw)
        known = self._destinations.get(rest)
        if known is None:
            known = _destination(raw)
            if len(rest) <= _MAX_KNOWN_LENGTH:
                if len(self._destinations) >= _MAX_KNOWN:
                    self._destinations.clear()
                self._destinations[rest] = known
        return known


def _destination(raw: bytes) -> Destination:
    pairs = decode_properties(raw)
    queue_id = pairs.get(PropertyName.REAL_QID, "")
    return Destination(
        group=pairs.get(PropertyName.PGROUP, ""),
        topic=pairs.get(PropertyName.REAL_TOPIC, ""),
        queue_id=int(queue_id) if queue_id.isascii() and queue_id.isdigit() and len(queue_id) < 10 else 0,
        delayed=PropertyName.DELAY in pairs,
        waits=pairs.get(PropertyName.WAIT) != "false",
    )
