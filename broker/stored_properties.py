"""What becomes of a producer's property string on its way into the store: WAIT goes, CLUSTER comes, the tags get their code.

Called for every message. The usual string is the unique key of the message, then pairs that are the same in message after
message; what becomes of those is remembered. Everything else is worked out, as text: searching in bytes with ``in`` costs
three times as much.
"""

from __future__ import annotations

from typing import Final

from ..remoting.protocol.properties import PropertyName, decode_properties, tags_code_of

_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_WAIT: Final = "WAIT\x01"
_DELAY: Final = "DELAY\x01"
_PREPARED: Final = "TRAN_MSG\x01"
_MAX_KNOWN: Final = 10_000
_MAX_KNOWN_LENGTH: Final = 500


class StoredProperties:
    """The rule for one broker: ``rewrite`` for single messages, ``rewrite_batch`` for what a batch says of itself."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_pair = f"{PropertyName.CLUSTER}\x01{cluster_name}"
        self._known: dict[str, tuple[bytes, int]] = {}

    def rewrite(self, text: str) -> tuple[bytes, int] | str:
        """The string to store and the tags code of the message, or why the message is refused (``not_served_yet``)."""
        if text.startswith(_UNIQUE_KEY) and (end := text.find("\x02")) > 0:
            rest = text[end:]
            known = self._known.get(rest)
            if known is not None:
                return text[:end].encode() + known[0], known[1]
            stored = self._rewritten(text)
            if not isinstance(stored, str) and len(rest) <= _MAX_KNOWN_LENGTH:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[rest] = stored[0][len(text[:end].encode()) :], stored[1]
            return stored
        return self._rewritten(text)

    def _rewritten(self, text: str) -> tuple[bytes, int] | str:
        if (refusal := not_served_yet(text)) is not None:
            return refusal
        if _WAIT in text:
            text = without_wait(text)
        stored = (f"{text}\x02{self._cluster_pair}" if text else self._cluster_pair).encode()
        return stored, tags_code_of(stored)

    def rewrite_batch(self, text: str) -> bytes:
        """The batch's own pairs, to be appended to those of its messages; here the original keeps WAIT."""
        return (f"{text}\x02{self._cluster_pair}" if text else self._cluster_pair).encode()


def waits_for_store(text: str) -> bool:
    """The producer wants its answer when the message is as safe as the broker can make it (the default)."""
    return decode_properties(text).get(PropertyName.WAIT) != "false"


def without_wait(text: str) -> str:
    """The property string without the pair WAIT, which tells how to store a message and is no part of it."""
    return "\x02".join(pair for pair in text.split("\x02") if not pair.startswith(_WAIT))


def not_served_yet(text: str) -> str | None:
    """Why a message with a delay or of a transaction is refused: as an ordinary one it would come at the wrong time."""
    if _DELAY not in text and _PREPARED not in text:
        return None
    pairs = decode_properties(text)
    delay = pairs.get(PropertyName.DELAY, "0")
    if delay.isdecimal() and int(delay) > 0:
        return "delayed messages are not served by this version yet: send without a delay level"
    if pairs.get(PropertyName.TRAN_MSG, "").lower() == "true":
        return "transactional messages are not served by this version yet: send without a transaction"
    return None
