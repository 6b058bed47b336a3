"""SQL92 filters, first step: text to tokens (class SelectorParser; ``broker-services.md`` §7.2).

============ ================================================================================
token        text
============ ================================================================================
NAME         ``[a-zA-Z_$][a-zA-Z0-9_$]*``, the name of a property; upper and lower case differ
keyword      ``AND OR NOT BETWEEN IN IS NULL TRUE FALSE``, in any case
STRING       ``'...'``; ``''`` inside stands for one quote
INTEGER      ``0`` or ``[1-9][0-9]*``, perhaps with ``l`` or ``L``
FLOAT        ``5.5  5.  .5  5e10  5.5E-3``
operator     ``= <> > >= < <= + - ( ) ,``
============ ================================================================================

Between tokens: white space, ``-- ...`` to the end of the line, ``/* ... */``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_EXPRESSION_LENGTH: Final = 8192
"""Characters. A broker parses and evaluates what its clients send."""

KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"))
END: Final = "end"


class FilterError(ValueError):
    """An expression that is no SQL92 filter. ``position`` is the number of the character, from
    1."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"position {position}: {reason}")
        self.position = position
        self.reason = reason


class Token(NamedTuple):
    kind: str
    """``NAME``, ``STRING``, ``INTEGER``, ``FLOAT``, ``END``, a keyword or an operator."""
    text: str
    position: int

    def __str__(self) -> str:
        return (
            "the end"
            if self.kind is END
            else self.text
            if len(self.text) <= 40
            else f"{self.text[:40]}..."
        )


_TOKEN: Final = re.compile(
    r"""
      (?P<SKIP>     [ \t\r\n\f]+ | --[^\r\n]* | /\*.*?\*/ )
    | (?P<FLOAT>    [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?
                  | \.[0-9]+(?:[eE][+-]?[0-9]+)?
                  | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<INTEGER>  (?:0|[1-9][0-9]*)[lL]? )
    | (?P<STRING>   '(?:[^']|'')*' )
    | (?P<NAME>     [a-zA-Z_$][a-zA-Z0-9_$]* )
    | (?P<OPERATOR> <>|>=|<=|[=<>+\-(),] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ADVICE: Final = {
    "!": "write <> for 'not equal'",
    '"': "text stands in single quotes",
    "'": "the text has no closing quote",
    "/": "the comment has no end, and there is no arithmetic",
    "*": "there is no arithmetic",
    "%": "there is no arithmetic",
    "|": "write OR, or use a tag expression",
    "&": "write AND",
}


def tokenize(text: str) -> list[Token]:
    """The tokens, ``END`` last. Raises ``FilterError``."""
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise FilterError(
            MAX_EXPRESSION_LENGTH,
            f"the expression has {len(text)} characters, the limit is {MAX_EXPRESSION_LENGTH}",
        )
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FilterError(at + 1, _unexpected(text[at]))
        kind, found = match.lastgroup or "", match.group()
        if kind == "OPERATOR":
            kind = found
        elif kind == "NAME" and found.upper() in KEYWORDS:
            kind = found.upper()
        if kind != "SKIP":
            tokens.append(Token(kind, found, at + 1))
        at = match.end()
    tokens.append(Token(END, "", len(text) + 1))
    return tokens


def _unexpected(character: str) -> str:
    advice = _ADVICE.get(character)
    return f"unexpected {character!r}" + (f" ({advice})" if advice else "")
