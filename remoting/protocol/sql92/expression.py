"""SQL92 filters: the parts of an expression, what may stand where, and their compiled form (classes
ComparisonExpression, LogicExpression, UnaryExpression; ``broker-services.md`` §7.2).

Every function here takes the parts of one construct and gives the whole; it raises ``FilterError``
for parts that can never be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final

import msgspec

from . import evaluation as ev
from .lexer import FilterError, Token

MAX_DEPTH: Final = 64
"""Of parentheses, signs, NOT and chains of ``=``: each level is a call when a message is looked
at."""


class Kind(Enum):
    BOOLEAN = auto()
    """True, false or NULL: comparisons, logic, and the literals TRUE, FALSE and NULL."""
    PROPERTY = auto()
    VALUE = auto()
    """A number or text: a literal, or something with a sign."""


class Expression(msgspec.Struct, frozen=True):
    """A part, compiled. ``names`` are the properties that it looks at, ``cost`` grows with the work
    of evaluating it."""

    run: ev.Run
    kind: Kind
    position: int
    text: str
    """For error texts: of a literal or property the token, else what it is."""
    is_literal: bool = False
    value: Any = None
    """Of a literal."""
    name: str = ""
    """Of a property."""
    names: frozenset[str] = frozenset()
    depth: int = 1
    cost: int = 1


def literal(token: Token) -> Expression:
    """A number or text, TRUE, FALSE or NULL."""
    value, kind = _LITERALS[token.kind](token)
    return Expression(
        ev.constant(value), kind, token.position, token.text, is_literal=True, value=value
    )


def property_(token: Token) -> Expression:
    name = token.text
    return Expression(
        ev.property_value(name),
        Kind.PROPERTY,
        token.position,
        name,
        name=name,
        names=frozenset((name,)),
    )


def as_boolean(part: Expression) -> Expression:
    """A part of which a truth value is asked: a property is cast (to false), a number or text is
    refused."""
    if part.kind is Kind.VALUE:
        raise FilterError(part.position, f"{part.text} is neither true nor false")
    if part.kind is Kind.PROPERTY:
        return _composed(
            ev.boolean_cast(part.name), part.position, "a property as truth value", (part,)
        )
    return part


def equality(operator: Token, left: Expression, right: Expression) -> Expression:
    """``=`` and ``<>``."""
    for part in (left, right):
        if part.is_literal and part.value is None:
            raise FilterError(
                part.position, f"{operator} NULL is never true: write IS NULL or IS NOT NULL"
            )
    if (
        left.is_literal
        and right.is_literal
        and left.kind is Kind.BOOLEAN
        and right.kind is not Kind.BOOLEAN
    ):
        raise FilterError(operator.position, f"{left.text} cannot be compared with {right.text}")
    build = ev.equal if operator.kind == "=" else ev.not_equal
    return _composed(build(left.run, right.run), left.position, "a comparison", (left, right))


def ordering(operator: Token, left: Expression, right: Expression) -> Expression:
    """``> >= < <=``."""
    _check_orderable(left, operator.text)
    _check_orderable(right, operator.text)
    return _composed(
        ev.ordered(operator.kind, left.run, right.run), left.position, "a comparison", (left, right)
    )


def between(left: Expression, low: Expression, high: Expression, *, wanted: bool) -> Expression:
    """``a BETWEEN low AND high`` is ``a >= low AND a <= high``, NOT BETWEEN is ``a < low OR a >
    high``."""
    for part in (left, low, high):
        _check_orderable(part, "BETWEEN")
    if low.is_literal and high.is_literal and (ev.compare(high.value, low.value) or 0) < 0:
        raise FilterError(
            low.position, f"BETWEEN {low.text} AND {high.text}: the first must not be greater"
        )
    if wanted:
        run = ev.conjunction(
            (ev.ordered(">=", left.run, low.run), ev.ordered("<=", left.run, high.run))
        )
    else:
        run = ev.disjunction(
            (ev.ordered("<", left.run, low.run), ev.ordered(">", left.run, high.run))
        )
    return _composed(run, left.position, "a comparison", (left, low, left, high))


def membership(left: Expression, values: Sequence[str], *, wanted: bool) -> Expression:
    """``IN`` and ``NOT IN``."""
    if left.kind is not Kind.PROPERTY:
        raise FilterError(left.position, f"IN asks for a property on its left, not {left.text}")
    return _composed(
        ev.member(left.name, frozenset(values), wanted=wanted),
        left.position,
        "a comparison",
        (left,),
    )


def null_test(left: Expression, *, wanted: bool) -> Expression:
    """``IS NULL`` and ``IS NOT NULL``."""
    return _composed(ev.is_null(left.run, wanted=wanted), left.position, "a comparison", (left,))


def conjunction(parts: Sequence[Expression]) -> Expression:
    """``AND``."""
    return _logic(ev.conjunction, parts)


def disjunction(parts: Sequence[Expression]) -> Expression:
    """``OR``."""
    return _logic(ev.disjunction, parts)


def inversion(operator: Token, operand: Expression) -> Expression:
    """``NOT``."""
    operand = as_boolean(operand)
    return _composed(ev.invert(operand.run), operator.position, "a truth value", (operand,))


def negation(operator: Token, operand: Expression) -> Expression:
    """The minus sign. The result is no literal any more: BETWEEN does not compare it with the other
    bound."""
    part = _composed(ev.negate(operand.run), operator.position, f"-{operand.text}", (operand,))
    return msgspec.structs.replace(part, kind=Kind.VALUE)


def _logic(
    build: Callable[[tuple[ev.Run, ...]], ev.Run], parts: Sequence[Expression]
) -> Expression:
    if len(parts) == 1:
        return parts[0]
    checked = [as_boolean(part) for part in parts]
    return _composed(
        build(tuple(part.run for part in checked)), parts[0].position, "a truth value", checked
    )


def _composed(run: ev.Run, position: int, text: str, parts: Sequence[Expression]) -> Expression:
    depth = 1 + max(part.depth for part in parts)
    if depth > MAX_DEPTH:
        raise FilterError(position, f"the expression is nested more than {MAX_DEPTH} levels deep")
    names = frozenset().union(*(part.names for part in parts))
    cost = 1 + sum(part.cost for part in parts)
    return Expression(run, Kind.BOOLEAN, position, text, names=names, depth=depth, cost=cost)


def _check_orderable(part: Expression, operator: str) -> None:
    if part.kind is Kind.BOOLEAN or (part.is_literal and isinstance(part.value, str)):
        raise FilterError(part.position, f"{operator} compares numbers, {part.text} is none")


# --- literals
# --------------------------------------------------------------------------------------------------


def _integer(token: Token) -> tuple[int, Kind]:
    digits = token.text.rstrip("lL")
    if len(digits) > 19 or (value := int(digits)) >= 1 << 63:
        raise FilterError(token.position, f"{token} does not fit into 64 bits")
    return (value if value < 1 << 31 else ev.Long(value)), Kind.VALUE


def _float(token: Token) -> tuple[float, Kind]:
    value = float(token.text)
    if value == 0.0 or math.isinf(value):
        raise FilterError(
            token.position,
            f"{token} is not between the smallest and the largest double; write 0 for zero",
        )
    return value, Kind.VALUE


def _string(token: Token) -> tuple[str, Kind]:
    return token.text[1:-1].replace("''", "'"), Kind.VALUE


_LITERALS: Final[dict[str, Callable[[Token], tuple[Any, Kind]]]] = {
    "INTEGER": _integer,
    "FLOAT": _float,
    "STRING": _string,
    "TRUE": lambda _: (True, Kind.BOOLEAN),
    "FALSE": lambda _: (False, Kind.BOOLEAN),
    "NULL": lambda _: (None, Kind.BOOLEAN),
}
LITERALS: Final = frozenset(_LITERALS)
