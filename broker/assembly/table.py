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
    return {code: handler for each in processors for code, handler in each.table.items()}
