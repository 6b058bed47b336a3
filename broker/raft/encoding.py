"""Requests as they go out. The entries of a push are most of it, and the same for all who are as
far: they become JSON once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ...remoting.protocol.bodies.dledger import DledgerBody, Entry, PushRequest, encode_dledger
from ...remoting.protocol.bodies.stored_entries import (
    StoredEntries,
    encode_before_bytes,
    encode_entries,
    encode_push,
)

_NOTHING: Final[Sequence[Entry]] = ()


class PushEncoder:
    """``encode`` what leaves in one turn, then ``forget``."""

    def __init__(self) -> None:
        self._entries = _NOTHING
        self._encoded = msgspec.Raw(b"[]")

    def encode(self, request: DledgerBody, takes_bytes: bool) -> tuple[bytes, bytes | memoryview]:
        """Its body in two pieces, the second one mostly empty. ``takes_bytes``: whoever it goes to,
        of a push's entries."""
        if not isinstance(request, PushRequest) or not request.batch_entry:
            return encode_dledger(request), b""
        entries = request.batch_entry
        if takes_bytes and isinstance(entries, StoredEntries):
            return encode_before_bytes(request), entries.data
        if entries is not self._entries:
            self._entries = entries
            self._encoded = encode_entries(entries)
        return encode_push(request, self._encoded), b""

    def forget(self) -> None:
        """Let go of the entries."""
        self._entries, self._encoded = _NOTHING, msgspec.Raw(b"[]")
