"""A producer's property string on its way into the store: WAIT goes, CLUSTER comes, the tags get
their code."""

from __future__ import annotations

from functools import partial
from typing import Final

from ..leaves import leaf
from ..message.properties import PropertyName, decode_properties, tags_code_of

_WAIT: Final = "WAIT\x01"
_NO_WAIT: Final = "WAIT\x01false"
_DELAY: Final = "DELAY\x01"
_PREPARED: Final = "TRAN_MSG\x01"
_HALF: Final = "\x02TRAN_MSG\x01true\x02"


@leaf
def stored_properties(cluster_pair: bytes, text: str, /) -> tuple[bytes, int] | None:
    """The string to store, and its tags code. ``None`` for a message that has to be placed: see
    ``placement``.

    Raises UnicodeEncodeError for a lone surrogate.
    """
    stored = text.encode()
    if has_to_be_placed(text):
        return None
    if _WAIT in text:
        stored = without_wait(text).encode()
    stored = stored + b"\x02" + cluster_pair if stored else cluster_pair
    return stored, tags_code_of(stored)


class StoredProperties:
    """The rule for one broker: ``rewrite`` for single messages, ``rewrite_batch`` for what a batch
    says of itself."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._cluster_pair = f"{PropertyName.CLUSTER}\x01{cluster_name}"
        self.rewrite: Final = partial(stored_properties, self._cluster_pair.encode())
        """``stored_properties`` of a text."""

    def with_cluster(self, text: str) -> dict[str, str]:
        """All pairs of a message that has to be placed, WAIT too: with those the original keeps
        it."""
        return {**decode_properties(text), PropertyName.CLUSTER: self._cluster_name}

    def rewrite_batch(self, text: str) -> bytes:
        """The batch's own pairs, to be appended to those of its messages; here the original keeps
        WAIT."""
        return (f"{text}\x02{self._cluster_pair}" if text else self._cluster_pair).encode()


def waits_for_store(text: str) -> bool:
    """The producer wants its answer when the message is as safe as the broker can make it (the
    default)."""
    return _NO_WAIT not in text or decode_properties(text).get(PropertyName.WAIT) != "false"


def without_wait(text: str) -> str:
    """The property string without the pair WAIT, which tells how to store a message and is no part
    of it."""
    return "\x02".join(pair for pair in text.split("\x02") if not pair.startswith(_WAIT))


def has_to_be_placed(text: str) -> bool:
    """The message carries a delay level or is half of a transaction: it does not go to its topic at
    once."""
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
