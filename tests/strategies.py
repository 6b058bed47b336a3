"""Hypothesis strategies read off annotations: values for any Record, so that one property can cover
a whole table."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, TypeVar

from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.wire import Record, fields_of, int_bounds

R = TypeVar("R", bound=Record)

wire_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that UTF-8 can carry, control characters and quotes included."""


# a strategy is checked and compiled at its first draw: tests that draw within @given ask for it
# every time
@functools.cache
def records(record_type: type[R]) -> st.SearchStrategy[R]:
    """Instances of a Record type; numbers go to the limits of their annotation, optional fields are
    ``None`` at times."""
    return st.builds(
        record_type, **{f.name: values_of(f.annotation) for f in fields_of(record_type)}
    )


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation as it stands in a Record."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated or annotation is int:
        return st.integers(*int_bounds(annotation))
    if origin in (typing.Union, types.UnionType):
        return st.one_of(
            *(
                st.none() if argument is type(None) else values_of(argument)
                for argument in arguments
            )
        )
    if origin in (list, Sequence):
        return st.lists(values_of(arguments[0]), max_size=3)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    return _values_of_class(annotation)


def _values_of_class(annotation: Any) -> st.SearchStrategy[Any]:
    if issubclass(annotation, Record):
        return records(annotation)
    if issubclass(annotation, Enum):
        return st.sampled_from(list(annotation))
    if issubclass(annotation, tuple):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return st.builds(annotation, **{name: values_of(hint) for name, hint in hints.items()})
    return {
        str: wire_text,
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=40),
    }[annotation]
