"""One plausible value for every annotation, so that our own encoders can make the first inputs."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

from aiorocketmq.remoting.protocol.wire import Record, fields_of

_SCALARS: dict[Any, Any] = {str: "Topic", int: 3, float: 1.5, bool: True, bytes: b"body"}


def sample_of(annotation: Any) -> Any:
    """Every field of a Record has a value, every list and table one member."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return sample_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return sample_of(next(each for each in arguments if each is not type(None)))
    if origin in (list, set, frozenset, tuple, Sequence):
        kind = list if origin is Sequence else origin
        return kind([sample_of(arguments[0])])
    if origin is dict:
        return {sample_of(arguments[0]): sample_of(arguments[1])}
    return _of_class(annotation)


def _of_class(annotation: Any) -> Any:
    if issubclass(annotation, Record):
        return annotation(**{f.name: sample_of(f.annotation) for f in fields_of(annotation)})
    if issubclass(annotation, Enum):
        return next(iter(annotation))
    if issubclass(annotation, tuple):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return annotation(**{name: sample_of(hint) for name, hint in hints.items()})
    return _SCALARS[annotation]
