"""Members of a DLedger group among themselves, on a port of their own: no ext fields, the body
is one JSON object (``bodies/dledger.py``; dledger.md §2)."""

from __future__ import annotations

from ..codes import RequestCode
from ..wire import NoFields
from .base import Command

_RAW = Command(NoFields, NoFields, bytes, bytes)
"""Decoded by who knows what it costs: a push has many entries."""

COMMANDS = {
    RequestCode.DLEDGER_METADATA: _RAW,
    RequestCode.DLEDGER_APPEND: _RAW,
    RequestCode.DLEDGER_GET: _RAW,
    RequestCode.DLEDGER_HANDSHAKE: _RAW,
    RequestCode.DLEDGER_VOTE: _RAW,
    RequestCode.DLEDGER_HEART_BEAT: _RAW,
    RequestCode.DLEDGER_PUSH: _RAW,
    RequestCode.DLEDGER_LEADERSHIP_TRANSFER: _RAW,
}
