"""Decoders of whole JSON headers: msgspec reads the envelope and the typed header in it at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .wire import Record, fields_of, i32

__all__ = ["any_of", "envelope_decoder"]


def envelope_decoder(request_type: type[Record]) -> Callable[[bytes], Any]:
    """A decoder of the whole JSON header with the typed header in it."""
    required = any(f.required for f in fields_of(request_type))
    ext_fields: tuple[Any, ...] = ("extFields", request_type)
    if not required:
        ext_fields = ("extFields", request_type, msgspec.field(default_factory=request_type))
    envelope = msgspec.defstruct(
        f"{request_type.__name__}Envelope",
        [("code", int), ext_fields, ("flag", i32, 0), ("opaque", i32, 0), ("version", i32, 0)],
        gc=False,
        kw_only=True,
    )
    return msgspec.json.Decoder(envelope, strict=False).decode


def any_of(names: Sequence[str]) -> Callable[[Any], bool] | None:
    """``lambda h: h.a or h.b``, made once per header type: an attrgetter and a comparison cost twice as much."""
    if not names:
        return None
    test: Callable[[Any], bool] = eval("lambda h: " + " or ".join(f"h.{name}" for name in names))  # our own field names
    return test
