"""Requests as they go out. The entries of a push are most of it, and the same for all who are as
far: they become JSON once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    Entry,
    PushRequest,
    encode_dledger,
    encode_entries,
    encode_push,
)

_NOTHING: Final[Sequence[Entry]] = ()


class PushEncoder:
    """``encode`` what leaves in one turn, then ``forget``."""

    def __init__(self) -> None:
        self._entries = _NOTHING
        self._encoded = msgspec.Raw(b"[]")

    def encode(self, request: DledgerBody) -> bytes:
        if not isinstance(request, PushRequest) or not request.batch_entry:
            return encode_dledger(request)
        if request.batch_entry is not self._entries:
            self._entries = request.batch_entry
            self._encoded = encode_entries(self._entries)
        return encode_push(request, self._encoded)

    def forget(self) -> None:
        """Let go of the entries."""
        self._entries, self._encoded = _NOTHING, msgspec.Raw(b"[]")
