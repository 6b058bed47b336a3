"""The table of requests: what each processor has of it, joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...remoting.dispatch import Handler
from ...remoting.protocol.codes import RequestCode


class Processor(Protocol):
    """Answers some requests."""

    @property
    def table(self) -> Mapping[RequestCode, Handler]: ...


def request_table(*processors: Processor) -> dict[RequestCode, Handler]:
    """The order does not matter: each request has one processor. Raises ValueError otherwise."""
    table: dict[RequestCode, Handler] = {}
    for each in processors:
        if twice := table.keys() & each.table.keys():
            raise ValueError(f"several processors answer {', '.join(code.name for code in twice)}")
        table.update(each.table)
    return table
