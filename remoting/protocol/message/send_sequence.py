"""Sends that a broker stores once, however often they come: what a message says of its place among
those of its producer (ours; the original stores every copy).

A producer numbers its messages from 0 on, in each queue for itself, and sends the next one when the
one before is answered, or several side by side as one batch. A message carries the bit
``MessageSysFlag.SEQUENCED`` and the property SEND_SEQUENCE; a batch carries the property once, in
its header, for its first message, and those behind it count on. The broker knows for every queue
which number comes next. A number that it has is answered as the first time and not stored again.

An *epoch* fences: once a message with a higher one has come to a queue, lower ones are refused
there, so a copy that is late stays out. The first message of a higher epoch may leave numbers out,
also the first of all in a queue: a producer that was never told whether a message is stored goes on
behind it.

The original stores the property and the bit as it stores what it does not know. So a producer asks
first (``RequestCode.SEND_SEQUENCE_HELLO``), and an answer without ``sequence`` is no success.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .properties import MessageError

_FORM: Final = re.compile(r"([0-9A-Za-z_#-]{1,64}):([0-9]{1,9}):([0-9]{1,18}):([0-9]{1,18})")


class SendSequence(NamedTuple):
    """The value of the property: ``id:epoch:number:begun_ms``."""

    producer_id: str
    """As sent: a secret of the producer, 1 to 64 of 0-9, A-Z, a-z, ``_`` and ``-``; a random one
    of 128 bits cannot be guessed. As stored: ``#`` and what the broker made of it and of the
    account."""
    epoch: int
    number: int
    """Of the message, or of the first one of a batch."""
    begun_ms: int
    """When this id was new: ``now_ms`` of the answer to its first hello at a broker of this name,
    so by that broker's clock. A broker that has forgotten what may have come since then says
    so."""

    @property
    def text(self) -> str:
        """The value of the property."""
        return f"{self.producer_id}:{self.epoch}:{self.number}:{self.begun_ms}"

    @classmethod
    def parse(cls, text: str) -> SendSequence:
        """The opposite of ``text``. Raises ``MessageError``."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise MessageError(
                f"the property SEND_SEQUENCE is id:epoch:number:begun_ms, not {text[:60]!r}"
            )
        producer_id, *numbers = found.groups()
        return cls(producer_id, *map(int, numbers))
