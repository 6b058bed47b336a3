"""Reading what a server answered."""

from __future__ import annotations

from typing import TypeVar

from ...remoting.errors import ProtocolError
from ...remoting.protocol.bodies.codec import BodyError, decode_body
from ...remoting.responses import Response

B = TypeVar("B")


def answer_body(answer: Response, body_type: type[B], address: str) -> B:
    """The typed body of a successful answer.

    Raises the ``BrokerError`` of any other code, ``ProtocolError`` for a body that is none of that
    type.
    """
    body = answer.check(address).body
    try:
        return decode_body(body_type, body)
    except BodyError as error:
        raise ProtocolError(
            f"{address} sent a body that is no {body_type.__name__}: {error}"
        ) from error
