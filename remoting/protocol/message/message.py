"""Messages as a user makes them. What comes in is ``record.decode.MessageExt``; the pieces that
both are made of live next door (``properties``, ``message_id``, ``message_queue``, ``sys_flag``,
``batch``, ``topic_names``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .properties import RESERVED_PROPERTIES, MessageError

TAG_SEPARATOR: Final = "||"
"""Between the tags of a subscription. The original lets messages have it in theirs, which then only
those get who want all."""


class Message(msgspec.Struct):
    """A message to send.

    ``tags`` is what consumers filter by; ``keys`` are indexed and must not contain spaces;
    ``delay_level`` 1..18 holds the message back (0: not); ``flag`` is the user's own number;
    ``wait_store_ok=False`` lets a SYNC_FLUSH broker answer before the disk has it; ``properties``
    are the user's own, see RESERVED_PROPERTIES for what they must not be.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    delay_level: int = 0
    flag: int = 0
    wait_store_ok: bool = True
    properties: dict[str, str] = {}


def message_properties(message: Message, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All properties of a message as they go over the wire; ``extra`` are the sender's (UNIQ_KEY,
    ...) and win.

    Raises MessageError for a user property with a reserved name, for a key with a space or an
    empty key, for tags that nobody could subscribe to and for a delay level below 0.
    """
    properties = dict(message.properties)
    if properties and not RESERVED_PROPERTIES.isdisjoint(properties):
        names = ", ".join(sorted(RESERVED_PROPERTIES.intersection(properties)))
        raise MessageError(
            f"these property names are reserved: {names}; use tags=, keys=, delay_level= or other "
            "names"
        )
    if message.tags:
        if not isinstance(message.tags, str):
            raise MessageError(f"the tags of a message are one text, not {message.tags!r}")
        if " | " in message.tags:  # hardly anybody means a tag of that name
            raise MessageError(
                f"a message has one tag, not {message.tags!r}; what else it is about goes into "
                "keys= or properties="
            )
        if TAG_SEPARATOR in message.tags:
            raise MessageError(
                f"a message has one tag, not {message.tags!r}: nobody could subscribe to that, "
                f"because {TAG_SEPARATOR} separates the tags that a consumer wants"
            )
        properties["TAGS"] = message.tags
    if message.keys:
        properties["KEYS"] = _join_keys(message.keys)
    if message.delay_level < 0:
        raise MessageError(
            f"the delay level is 1 (1 s) to 18 (2 h), 0 for none, not {message.delay_level}"
        )
    if message.delay_level > 0:
        properties["DELAY"] = str(message.delay_level)
    if not message.wait_store_ok:
        properties["WAIT"] = "false"
    if extra:
        properties.update(extra)
    return properties


def _join_keys(keys: Sequence[str]) -> str:
    if isinstance(keys, str):  # a common slip: one key instead of a list of keys
        keys = (keys,)
    for key in keys:
        if not key or " " in key:
            raise MessageError(
                f"key {key!r} must not be empty and must not contain a space: it separates keys"
            )
    return " ".join(keys)
