"""The table of commands: request code to the classes of its headers and bodies. Nothing else knows
wire names.

A file per area, each with its slice of the table; here they become one. The dispatcher, the client,
one property test over all rows, the golden-bytes test and the documentation read it.

Imports the protocol's ``wire``, ``codes`` and bodies. Start with ``base.py``, then ``send.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..codes import RequestCode
from . import (
    acl,
    admin,
    client,
    dledger,
    group,
    kv,
    offset,
    pull,
    route,
    send,
    topic,
    transaction,
)
from .base import Command


def merge(tables: Iterable[Mapping[RequestCode, Command]]) -> dict[RequestCode, Command]:
    """One table in the order of the codes. Raises ``ValueError`` for a code that two tables
    declare."""
    merged: dict[RequestCode, Command] = {}
    for table in tables:
        for code, command in table.items():
            if code in merged:
                raise ValueError(f"{code.name} ({code}) is declared twice")
            merged[code] = command
    return dict(sorted(merged.items()))


COMMANDS = merge(
    area.COMMANDS
    for area in (
        send,
        pull,
        offset,
        topic,
        group,
        route,
        kv,
        client,
        transaction,
        acl,
        admin,
        dledger,
    )
)
