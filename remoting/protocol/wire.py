"""The one codec: an annotated ``Record`` declares what goes over the wire, onto the disk and into
``.properties`` files.

A ``Record`` is a msgspec Struct whose fields are snake_case in Python and camelCase outside::

    class QueryConsumerOffsetRequest(Record, frozen=True, kw_only=True):
        consumer_group: str                          # consumerGroup, required
        queue_id: i32                                # range-checked when decoded
        set_zero_if_not_found: bool | None = None    # None stays off the wire

On the wire every value of a header is text (``remoting.md`` §1.2). ``to_fields`` and
``from_fields`` convert between a Record and that dict of text with the original's rules:

* ``None`` is not written; a field with another default (a Java primitive) is always written;
* a boolean is true when its text is ``true`` in any case, everything else is false;
* a number is decimal digits with an optional sign and must fit its type;
* a required field that is absent, or a number that is not one, raises ``FieldError`` naming the
  field (quirk ``CHECKED_FIELDS``: the original fails later with a NullPointerException text).
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

import msgspec

i32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
i64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

R = TypeVar("R", bound="Record")

_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)


if typing.TYPE_CHECKING:

    @typing.dataclass_transform(field_specifiers=(msgspec.field,))
    class RecordMeta(msgspec.StructMeta):
        """Tells type checkers that Record itself is neither frozen nor not (PEP 681), so that both
        may inherit."""
else:
    RecordMeta = msgspec.StructMeta


class Record(msgspec.Struct, metaclass=RecordMeta, rename="camel", gc=False):
    """Base of everything declared as data. Subclass with ``frozen=True, kw_only=True`` unless there
    is a reason not to."""

    def __repr__(self) -> str:
        """As it stands in logs and remarks: members of an enumeration by their name."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (
            f"{name}={value.name if isinstance(value, Enum) else repr(value)}"
            for name, value in values
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class NoFields(Record, frozen=True):
    """The header of a command that has none. Encodes to no ``extFields`` at all."""


class EmptyFields(Record, frozen=True):
    """A header class without fields, or whose fields were never set: the original writes
    ``"extFields":{}``."""


class FieldError(ValueError):
    """A header or property is missing or malformed. ``field`` is its wire name; the text tells what
    was expected."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Field(msgspec.Struct, frozen=True):
    """One field of a Record as the codec sees it."""

    name: str
    """The Python attribute."""
    wire_name: str
    """The key outside of Python."""
    kind: type
    """``str``, ``int``, ``float`` or ``bool``; ``object`` for anything that is not a scalar."""
    optional: bool
    """``None`` is allowed and stands for absent."""
    required: bool
    default: Any
    annotation: Any


@functools.cache
def fields_of(record_type: type[Record]) -> tuple[Field, ...]:
    """The fields of a Record type in the order of declaration, base classes first."""
    return tuple(
        Field(
            name=info.name,
            wire_name=info.encode_name,
            kind=_scalar_kind(info.type),
            optional=_is_optional(info.type),
            required=info.required,
            default=info.default
            if info.default_factory is msgspec.NODEFAULT
            else info.default_factory(),
            annotation=info.type,
        )
        for info in msgspec.structs.fields(record_type)
    )


def to_text(value: object) -> str:
    """A scalar as Java's ``toString`` writes it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def to_fields(record: Record) -> dict[str, str]:
    """The ext fields of a header: wire name to text, ``None`` left out, in the order of
    declaration."""
    fields: dict[str, str] = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if value is not None:
            fields[field.wire_name] = value if type(value) is str else to_text(value)
    return fields


def from_fields(record_type: type[R], fields: Mapping[str, Any]) -> R:
    """A typed header from ext fields; unknown keys are ignored, values may be text, numbers,
    booleans or ``None``.

    Raises ``FieldError`` for a required field that is absent and for a number that cannot be read.
    """
    values: dict[str, Any] = {}
    for field in fields_of(record_type):
        raw = fields.get(field.wire_name)
        if raw is None:
            if field.required:
                raise FieldError(field.wire_name, f"the field '{field.wire_name}' is missing")
            continue
        values[field.name] = scalar_from_text(field, raw if type(raw) is str else to_text(raw))
    return record_type(**values)


def from_texts(record_type: type[R], fields: Mapping[str, str]) -> R:
    """As ``from_fields`` where all values are text, as they come in headers: by msgspec, at a
    twentieth of the time.

    What msgspec refuses, or takes for true (the original knows nothing but "true"), goes the long
    way.
    """
    try:
        record = msgspec.convert(fields, record_type, strict=False)
    except (msgspec.ValidationError, UnicodeError):
        return from_fields(record_type, fields)
    for name, wire_name in _flags_of(record_type):
        if getattr(record, name) and fields.get(wire_name, "true").lower() != "true":
            return from_fields(record_type, fields)
    return record


@functools.cache
def _flags_of(record_type: type[Record]) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.wire_name) for f in fields_of(record_type) if f.kind is bool)


def scalar_from_text(field: Field, text: str) -> Any:
    """The value of one field from its text. Raises ``FieldError`` when a number is malformed or out
    of range."""
    if field.kind is str:
        return text
    if field.optional and text.lower() == "null":
        return None
    if field.kind is bool:
        return text.lower() == "true"
    if field.kind is int:
        return _int_from_text(field, text)
    if field.kind is float:
        try:
            return float(text)
        except ValueError:
            raise FieldError(field.wire_name, _expected(field, "a decimal number", text)) from None
    raise FieldError(field.wire_name, f"the field '{field.wire_name}' cannot be read from text")


def _int_from_text(field: Field, text: str) -> int:
    if _DECIMAL.fullmatch(text):
        value = int(text) if len(text) < 25 else 2**64
    else:
        value = _integral_decimal(field, text)
    low, high = int_bounds(field.annotation)
    if not low <= value <= high:
        raise FieldError(field.wire_name, _expected(field, f"a number from {low} to {high}", text))
    return value


def _integral_decimal(field: Field, text: str) -> int:
    """``2.0`` and ``1e3``: quirk ``INTEGRAL_DECIMALS``, the price of decoding numbers in C."""
    try:
        number = (
            msgspec.convert(text, int, strict=False) if text.isascii() and len(text) < 400 else None
        )
    except msgspec.ValidationError:
        number = None
    if number is None:
        raise FieldError(field.wire_name, _expected(field, "a whole number", text))
    return number


def _expected(field: Field, expected: str, text: str) -> str:
    shown = text if len(text) <= 40 else text[:40] + "..."
    return f"the field '{field.wire_name}' must be {expected}, not '{shown}'"


@functools.cache
def int_bounds(annotation: Any) -> tuple[int, int]:
    """The least and the greatest number that an annotation such as ``i32`` or ``i64 | None``
    allows."""
    for part in (annotation, *typing.get_args(annotation)):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.ge is not None and meta.le is not None:
                return int(meta.ge), int(meta.le)
    return -(2**63), 2**63 - 1


def _variants(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _is_optional(annotation: Any) -> bool:
    return type(None) in _variants(annotation)


def _scalar_kind(annotation: Any) -> type:
    kinds = [v for v in _variants(annotation) if v is not type(None)]
    if len(kinds) != 1:
        return object
    kind = kinds[0]
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if kind in (str, int, float, bool):
        return typing.cast(type, kind)
    return object
