"""SQL92 filters, evaluation: values and how they compare (classes ComparisonExpression,
UnaryExpression; ``broker-services.md`` §7.3). Pure.

The properties of a message are text. A literal is an ``int`` (32 bits), a ``Long`` (64 bits), a
``float``, a ``str`` or a ``bool``; ``None`` is SQL's NULL, and a property that is not there is
NULL. Text that meets a number is read as *the type of that number*: ``a = 5`` cannot be evaluated
for ``5.5`` nor for ``3000000000``, and what cannot be evaluated does not match, whatever stands
around it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

Get = Callable[[str], str | None]
"""Looks up a property."""
Run = Callable[[Get], Any]
"""A compiled expression: the value for the properties of one message. May raise
``EvaluationError``."""

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DOUBLE: Final = re.compile(
    r"[\x00-\x20]*+"
    r"(?:([+-]?(?:NaN|Infinity))"
    r"|([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?)"
    r"[\x00-\x20]*+"
)
"""Possessive: a property of 32,000 digits that is no number would be tried at each of them."""


class EvaluationError(ValueError):
    """The expression has no value for this message: the message does not match."""


class Long(int):
    """An integer of 64 bits; a plain ``int`` has 32. They differ in what text they compare with."""

    __slots__ = ()


def parse_int(text: str, bits: int) -> int:
    """Text as Java reads an integer: a sign, digits, nothing else. Raises ``EvaluationError``."""
    if len(text) < 10 and text.isdecimal() and text.isascii():
        return int(text)
    found = _INTEGER.fullmatch(text)
    if found is not None:
        value = int(found[1] + found[2])
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return value
    raise EvaluationError(f"{text[:40]!r} is no integer of {bits} bits")


def parse_double(text: str) -> float:
    """Text as Java reads a double; hexadecimal ones are not known here. Raises
    ``EvaluationError``."""
    found = _DOUBLE.fullmatch(text)
    if found is None:
        raise EvaluationError(f"{text[:40]!r} is no number")
    return float(found[1] or found[2])


def parse_like(text: str, pattern: bool | int | float) -> bool | int | float:
    """Text as the type of the value that it is compared with. Raises ``EvaluationError``."""
    kind = type(pattern)
    if kind is int:
        return parse_int(text, 32)
    if kind is Long:
        return parse_int(text, 64)
    if kind is float:
        return parse_double(text)
    return text.lower() == "true"


def compare(left: Any, right: Any) -> int | None:
    """Negative, 0 or positive; ``None`` for values that are never equal, less or greater (a truth
    value and a number).

    Raises ``EvaluationError``: text that is not what it is compared with, and text to the right of
    a truth value.
    """
    if type(left) is not type(right):
        if type(left) is str:
            left = parse_like(left, right)
        elif type(left) is bool:
            if type(right) is str:
                raise EvaluationError("text stands to the right of a truth value")
            return None
        elif type(right) is str:
            right = parse_like(right, left)
        elif type(right) is bool:
            return None
    if type(left) is float or type(right) is float:
        return _compare_doubles(float(left), float(right))
    order: int = (left > right) - (left < right)
    return order


def _compare_doubles(left: float, right: float) -> int:
    """Java's total order: -0.0 is less than 0.0, NaN equals NaN and is greater than everything
    else."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    if math.isnan(value):
        return 1
    return -1 if value == 0.0 and math.copysign(1.0, value) < 0 else 0


# --- building blocks
# ------------------------------------------------------------------------------------------------


def constant(value: Any) -> Run:
    return lambda _get: value


def property_value(name: str) -> Run:
    return lambda get: get(name)


def boolean_cast(name: str) -> Run:
    """A property that stands alone. Text is no truth value, not even ``true``: false, or NULL when
    it is missing."""
    return lambda get: None if get(name) is None else False


def equal(left: Run, right: Run) -> Run:
    """NULL on the left only is NULL, NULL on the right only is false, two NULLs are equal."""

    def run(get: Get) -> bool | None:
        a, b = left(get), right(get)
        if a is None or b is None:
            return True if a is b else None if a is None else False
        return compare(a, b) == 0

    return run


def not_equal(left: Run, right: Run) -> Run:
    return invert(equal(left, right))


_HOLDS: Final[dict[str, Callable[[int], bool]]] = {
    ">": (0).__lt__,
    ">=": (0).__le__,
    "<": (0).__gt__,
    "<=": (0).__ge__,
}
"""Whether the result of ``compare`` is what the operator asks for: it stands to the right of the
0."""


def ordered(operator: str, left: Run, right: Run) -> Run:
    """``> >= < <=``: NULL on either side is NULL; two texts are compared as doubles."""
    holds = _HOLDS[operator]

    def run(get: Get) -> bool | None:
        a = left(get)
        if a is None:
            return None
        b = right(get)
        if b is None:
            return None
        if type(a) is str and type(b) is str:
            a, b = parse_double(a), parse_double(b)
        order = compare(a, b)
        return order is not None and holds(order)

    return run


def member(name: str, values: frozenset[str], *, wanted: bool) -> Run:
    """IN and NOT IN: NULL for a missing property."""

    def run(get: Get) -> bool | None:
        value = get(name)
        return None if value is None else (value in values) is wanted

    return run


def is_null(operand: Run, *, wanted: bool) -> Run:
    """IS NULL and IS NOT NULL: never NULL themselves."""
    return lambda get: (operand(get) is None) is wanted


def conjunction(operands: tuple[Run, ...]) -> Run:
    """False as soon as one is false, else NULL when one is NULL."""

    def run(get: Get) -> bool | None:
        result: bool | None = True
        for operand in operands:
            value = operand(get)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return run


def disjunction(operands: tuple[Run, ...]) -> Run:
    """True as soon as one is true, else NULL when one is NULL."""

    def run(get: Get) -> bool | None:
        result: bool | None = False
        for operand in operands:
            value = operand(get)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return run


def invert(operand: Run) -> Run:
    """NOT: NULL stays NULL."""

    def run(get: Get) -> bool | None:
        value = operand(get)
        return None if value is None else not value

    return run


def negate(operand: Run) -> Run:
    """The minus sign: NULL for what is no number, so for every property."""

    def run(get: Get) -> int | float | None:
        value = operand(get)
        kind = type(value)
        if kind is int or kind is float:
            return -value  # type: ignore[no-any-return]
        return Long(-value) if kind is Long else None

    return run
