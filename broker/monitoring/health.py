"""Whether this broker does what it is there for, for those who start and stop it: containers,
Kubernetes, balancers (``mqhealth``). Ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.wire import NoFields

Reason = Callable[[], str | None]
"""Why it does not, in a few words that tell nobody's secrets; None: it does."""


class HealthProcessor:
    """Answers SUCCESS, or SERVICE_NOT_AVAILABLE with all that there is to say."""

    def __init__(self, reasons: Sequence[Reason]) -> None:
        self._reasons: Final = tuple(reasons)

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.HEALTH: self.health}

    def health(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        if found := [text for reason in self._reasons if (text := reason()) is not None]:
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark="; ".join(found))
        return Reply()
