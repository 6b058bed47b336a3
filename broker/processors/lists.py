"""Requests of 5.x administrators for many topics or groups at once: what one of them may cost."""

from __future__ import annotations

from typing import Final, TypeVar

from ...remoting.dispatch import Body
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import decode_request_body
from ...remoting.protocol.codes import ResponseCode

MAX_BYTES: Final = 1 << 20
"""Of one list: 5,000 topics, decoded in 10 ms."""
PER_TURN: Final = 32
"""Items of it that are worked on in a turn of the loop."""

T = TypeVar("T")


def decode_request_list(body_type: type[T], body: Body) -> T:
    """Raises ``BodyError``, and ``RequestError`` for one that is too long."""
    if len(body) > MAX_BYTES:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the list has {len(body)} bytes, the limit is {MAX_BYTES}: send parts",
        )
    return decode_request_body(body_type, body)
