"""Python twin of ``replies.pxi``: the typed header of a good answer, straight from its JSON."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from ..wire import Record
from .pure_headers import _RESPONSE_FLAG, _UNREADABLE, _Envelope

R = TypeVar("R", bound=Record)


class Replies(Generic[R]):
    """Answers to one kind of request."""

    def __init__(self, response_type: type[R], /) -> None:
        self._envelope: Final = _Envelope(0, response_type)

    def read(self, form: int, header: bytes, /) -> tuple[int, R] | None:
        """Opaque and typed header of an answer of code 0.

        ``None`` for whatever is not as almost all of them are, right or wrong: the general rule
        (``responses.read_answer``) then tells. What is read here is read alike. Compiled: 200 ns
        for a send.
        """
        if form != 0:
            return None
        try:
            found = self._envelope.decode(header)
        except _UNREADABLE:
            return None
        fields: R = found.extFields
        flagged = self._envelope.flagged
        if found.code != 0 or not found.flag & _RESPONSE_FLAG:
            return None
        if (
            flagged is not None
            and flagged(fields)
            and not self._envelope.really_flagged(fields, header)
        ):
            return None
        return found.opaque, fields
