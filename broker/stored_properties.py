"""What becomes of a producer's property string on its way into the store: WAIT goes, CLUSTER comes, the tags get their code.

Called for every message. The usual string is the unique key of the message, then pairs that are the same in message after
message; what becomes of those is remembered. Everything else is worked out, as text: searching in bytes with ``in`` costs
three times as much.
"""

from __future__ import annotations

from typing import Final

from ..remoting.protocol.properties import PropertyName, decode_properties, tags_code_of

_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_NO_KEY: Final = len(_UNIQUE_KEY)
_WAIT: Final = "WAIT\x01"
_NO_WAIT: Final = "WAIT\x01false"
_KEYS: Final = (_UNIQUE_KEY, "KEYS\x01")
_DELAY: Final = "DELAY\x01"
_PREPARED: Final = "TRAN_MSG\x01"
_HALF: Final = "\x02TRAN_MSG\x01true\x02"
_MAX_KNOWN: Final = 10_000
_MAX_KNOWN_LENGTH: Final = 500


class StoredProperties:
    """The rule for one broker: ``rewrite`` for single messages, ``rewrite_batch`` for what a batch says of itself."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._cluster_pair = f"{PropertyName.CLUSTER}\x01{cluster_name}"
        self._known: dict[str, tuple[bytes, int, bool]] = {}
        self._placed: set[str] = set()
        """What stood behind the unique key of messages that have to be placed."""

    def rewrite(self, text: str) -> tuple[bytes, int, int] | None:
        """The string to store, the tags code, and where the value of UNIQ_KEY ends in it when that is the first pair and the
        only key (0 when not: who needs the keys has to look). ``None`` for a message that has to be placed: see
        ``placement``.
        """
        first, _, rest = text.partition("\x02")
        if rest and first.startswith(_UNIQUE_KEY):
            own = first.encode()
            known = self._known.get(rest)
            if known is None:
                known = self._shared(text, own, rest)
                if known is None:
                    return None
            end = len(own)
            return own + known[0], known[1], end if known[2] and end > _NO_KEY else 0
        stored = self._rewritten(text)
        return None if stored is None else (*stored, 0)

    def _shared(self, text: str, own: bytes, rest: str) -> tuple[bytes, int, bool] | None:
        """What comes of the pairs behind the unique key: bytes, tags code, there is no other key."""
        if rest in self._placed:
            return None
        stored = self._rewritten(text)
        if stored is None:
            if len(rest) <= _MAX_KNOWN_LENGTH and len(self._placed) < _MAX_KNOWN:
                self._placed.add(rest)
            return None
        only_key = not any(f"\x02{name}" in f"\x02{rest}" for name in _KEYS)
        known = stored[0][len(own) :], stored[1], only_key
        if len(rest) <= _MAX_KNOWN_LENGTH:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[rest] = known
        return known

    def _rewritten(self, text: str) -> tuple[bytes, int] | None:
        if has_to_be_placed(text):
            return None
        if _WAIT in text:
            text = without_wait(text)
        stored = (f"{text}\x02{self._cluster_pair}" if text else self._cluster_pair).encode()
        return stored, tags_code_of(stored)

    def with_cluster(self, text: str) -> dict[str, str]:
        """All pairs of a message that has to be placed, WAIT too: with those the original keeps it."""
        return {**decode_properties(text), PropertyName.CLUSTER: self._cluster_name}

    def rewrite_batch(self, text: str) -> bytes:
        """The batch's own pairs, to be appended to those of its messages; here the original keeps WAIT."""
        return (f"{text}\x02{self._cluster_pair}" if text else self._cluster_pair).encode()


def waits_for_store(text: str) -> bool:
    """The producer wants its answer when the message is as safe as the broker can make it (the default)."""
    return _NO_WAIT not in text or decode_properties(text).get(PropertyName.WAIT) != "false"


def without_wait(text: str) -> str:
    """The property string without the pair WAIT, which tells how to store a message and is no part of it."""
    return "\x02".join(pair for pair in text.split("\x02") if not pair.startswith(_WAIT))


def has_to_be_placed(text: str) -> bool:
    """The message carries a delay level or is half of a transaction: it does not go to its topic at once."""
    if _DELAY not in text and _PREPARED not in text:
        return False
    if is_half(text):
        return True
    pairs = decode_properties(text)
    return pairs.get(PropertyName.DELAY, "0") != "0"


def is_half(text: str) -> bool:
    """The message is the first half of a transaction (``Boolean.parseBoolean`` of TRAN_MSG)."""
    if _PREPARED not in text:
        return False
    if _HALF in text and text.count(_PREPARED) == 1:
        return True  # how all clients write it
    return decode_properties(text).get(PropertyName.TRAN_MSG, "").lower() == "true"
