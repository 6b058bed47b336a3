"""SQL92 filters, second step: tokens to a compiled expression, by recursive descent (class
SelectorParser; ``broker-services.md`` §7.2)::

    or          and ( OR and )*
    and         equality ( AND equality )*
    equality    comparison ( ("=" | "<>") comparison | IS [NOT] NULL )*
    comparison  unary ( (">" | ">=" | "<" | "<=") unary
                      | [NOT] BETWEEN unary AND unary | [NOT] IN texts )*
    texts       "(" text ( "," text )* ")"
    unary       "+" unary | "-" unary | NOT unary | primary
    primary     literal | property | "(" or ")"

NOT binds tighter than ``=``: ``NOT a = 1`` is ``(NOT a) = 1``. The original stops where the grammar
ends and ignores what follows; here that is an error (quirk ``TRAILING_GARBAGE``).
"""

from __future__ import annotations

from typing import Final

from . import expression as ex
from .expression import Expression
from .lexer import END, FilterError, Token, tokenize

MAX_OPERANDS: Final = 256
"""Literals and properties outside of IN lists. A broker evaluates the expression for message after
message."""

_ORDERINGS: Final = frozenset((">", ">=", "<", "<="))
_UNKNOWN_WORDS: Final = frozenset(("LIKE", "CONTAINS", "STARTSWITH", "ENDSWITH", "XOR", "ESCAPE"))


def parse(text: str) -> Expression:
    """The expression, of which a truth value may be asked. Raises ``FilterError``."""
    parser = _Parser(tokenize(text))
    if parser.token.kind is END:
        raise FilterError(1, "the expression is empty")
    whole = parser.disjunction()
    if parser.token.kind is not END:
        raise FilterError(parser.token.position, _garbage(parser.token))
    return ex.as_boolean(whole)


class _Parser:
    """A method per line of the grammar; ``token`` is the next one."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._level = 0
        self._operands = 0
        self.token = tokens[0]

    def disjunction(self) -> Expression:
        parts = [self.conjunction()]
        while self._accept("OR"):
            parts.append(self.conjunction())
        return ex.disjunction(parts)

    def conjunction(self) -> Expression:
        parts = [self.equality()]
        while self._accept("AND"):
            parts.append(self.equality())
        return ex.conjunction(parts)

    def equality(self) -> Expression:
        left = self.comparison()
        while True:
            operator = self.token
            if operator.kind in ("=", "<>"):
                self._advance()
                left = ex.equality(operator, left, self.comparison())
            elif self._accept("IS"):
                wanted = not self._accept("NOT")
                self._expect("NULL")
                left = ex.null_test(left, wanted=wanted)
            else:
                return left

    def comparison(self) -> Expression:
        left = self.unary()
        while True:
            operator = self.token
            if operator.kind in _ORDERINGS:
                self._advance()
                left = ex.ordering(operator, left, self.unary())
                continue
            wanted = True
            if operator.kind == "NOT" and self._tokens[self._at + 1].kind in ("BETWEEN", "IN"):
                self._advance()
                wanted = False
            if self._accept("BETWEEN"):
                low = self.unary()
                self._expect("AND")
                left = ex.between(left, low, self.unary(), wanted=wanted)
            elif self._accept("IN"):
                left = ex.membership(left, self._texts(), wanted=wanted)
            else:
                return left

    def _texts(self) -> list[str]:
        self._expect("(")
        texts = [self._text()]
        while self._accept(","):
            texts.append(self._text())
        self._expect(")")
        return texts

    def _text(self) -> str:
        token = self.token
        if token.kind != "STRING":
            raise FilterError(token.position, f"IN lists texts in single quotes, not {token}")
        self._advance()
        return str(ex.literal(token).value)

    def unary(self) -> Expression:
        operator = self.token
        if operator.kind not in ("+", "-", "NOT"):
            return self.primary()
        self._advance()
        self._deeper(operator)
        operand = self.unary()
        self._level -= 1
        if operator.kind == "+":
            return operand
        return (
            ex.negation(operator, operand)
            if operator.kind == "-"
            else ex.inversion(operator, operand)
        )

    def primary(self) -> Expression:
        token = self.token
        if token.kind == "NAME" or token.kind in ex.LITERALS:
            self._advance()
            self._operands += 1
            if self._operands > MAX_OPERANDS:
                raise FilterError(
                    token.position, f"the expression has more than {MAX_OPERANDS} operands"
                )
            return ex.property_(token) if token.kind == "NAME" else ex.literal(token)
        if token.kind != "(":
            raise FilterError(
                token.position, f"expected a property, a literal or '(', found {token}"
            )
        self._advance()
        self._deeper(token)
        inside = self.disjunction()
        self._level -= 1
        self._expect(")")
        return inside

    def _deeper(self, token: Token) -> None:
        self._level += 1
        if self._level > ex.MAX_DEPTH:
            raise FilterError(
                token.position, f"the expression is nested more than {ex.MAX_DEPTH} levels deep"
            )

    def _advance(self) -> None:
        self._at += 1
        self.token = self._tokens[self._at]

    def _accept(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self._advance()
        return True

    def _expect(self, kind: str) -> None:
        if not self._accept(kind):
            raise FilterError(self.token.position, f"expected {kind}, found {self.token}")


def _garbage(token: Token) -> str:
    if token.text.upper() in _UNKNOWN_WORDS:
        return f"there is no operator {token}"
    if token.text[0].isdigit():
        return f"{token} follows a complete expression (numbers have no leading zeros)"
    return f"{token} follows a complete expression"
