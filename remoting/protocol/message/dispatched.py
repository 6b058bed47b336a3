"""The further queues of a stored message (class MultiDispatch; commitlog.md §5.1).

A record lies once in the log and tells its own topic, queue and number. INNER_MULTI_DISPATCH names
topics whose queues point to it, too, joined by ``,``, and INNER_MULTI_QUEUE_OFFSET the number that
it has in each. How they get there: ``store/put/multi_dispatch.py``.
"""

from __future__ import annotations

from typing import Final

from .properties import PropertyName, find_property

NAMES: Final = PropertyName.INNER_MULTI_DISPATCH.encode()
NUMBERS: Final = PropertyName.INNER_MULTI_QUEUE_OFFSET.encode()
NAMES_PAIR: Final = NAMES + b"\x01"


def dispatched_names(properties: bytes) -> list[str]:
    """The topics that a message names."""
    return (find_property(properties, NAMES) or b"").decode("utf-8", "replace").split(",")


def dispatched_numbers(properties: bytes) -> list[tuple[str, int]]:
    """The named topics of a stored record with the number that it has in each; empty when they do
    not go together."""
    if NAMES_PAIR not in properties:
        return []
    numbers = (find_property(properties, NUMBERS) or b"").split(b",")
    names = dispatched_names(properties)
    if len(numbers) != len(names) or not all(
        number.isdigit() and len(number) < 19 for number in numbers
    ):
        return []
    return [(name, int(number)) for name, number in zip(names, numbers, strict=True)]
