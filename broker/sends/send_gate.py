"""Whether messages are taken at all now: not before ``startAcceptSendRequestTimeStamp``, and not
while the broker cannot keep up (``fast_failure.py``)."""

from __future__ import annotations

from typing import Final

from ...remoting.errors import RequestError
from ...remoting.protocol.codes import ResponseCode
from ..config.config import BrokerConfig

_NEVER: Final = 2**63
"""A time (ms) that no message comes at."""


class SendGate:
    """Who takes messages compares ``closed_until_ms`` with the time at which each of them came: no
    call, and the same number for both reasons."""

    def __init__(self, config: BrokerConfig) -> None:
        self.busy: str | None = None
        """Why the broker cannot keep up."""
        self.closed_until_ms: int = 0
        self._config: Final = config
        self.read_config()

    def read_config(self) -> None:
        """Take over what the configuration says now: at start, and whenever it changes."""
        self.closed_until_ms = (
            _NEVER if self.busy is not None else self._config.start_accept_send_request_time_stamp
        )

    def refuse(self, remark: str | None) -> None:
        """Answer every message SYSTEM_BUSY with this remark; ``None``: take them again."""
        self.busy = remark
        self.read_config()

    def check_busy(self) -> None:
        """Raises ``RequestError``."""
        if self.busy is not None:
            raise RequestError(ResponseCode.SYSTEM_BUSY, self.busy)

    def check(self, received_at_ms: int) -> None:
        """Raises ``RequestError`` for a message that came at this time."""
        self.check_busy()
        if received_at_ms < self.closed_until_ms:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {self.closed_until_ms} (ms since 1970)",
            )
