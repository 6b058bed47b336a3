"""Three-valued logic is that of SQL: random expressions give what SQLite gives.

NOT stands in parentheses, because it binds tighter here, and numbers are cast, because a property
is text.
"""

from __future__ import annotations

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.sql92.parser import parse

TEXTS = ("x", "y", "it's", "5")
Pair = tuple[str, str]
"""An expression here, and the same for SQLite."""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def listed(texts: list[str]) -> str:
    return f"({', '.join(map(quoted, texts))})"


text_names = st.sampled_from(["s", "t"])
number_names = st.sampled_from(["m", "n"])
texts = st.sampled_from(TEXTS)
numbers = st.integers(-3, 3)
lists = st.lists(texts, min_size=1, max_size=3)


def same(text: str) -> Pair:
    return text, text


def on_number(name: str, rest: str) -> Pair:
    return f"{name} {rest}", f"CAST({name} AS INTEGER) {rest}"


atoms = st.one_of(
    st.sampled_from(["TRUE", "FALSE", "NULL"]).map(same),
    st.builds(
        lambda n, op, v: same(f"{n} {op} {quoted(v)}"),
        text_names,
        st.sampled_from(["=", "<>"]),
        texts,
    ),
    st.builds(
        lambda n, op, v: same(f"{n} {op} {listed(v)}"),
        text_names,
        st.sampled_from(["IN", "NOT IN"]),
        lists,
    ),
    st.builds(
        lambda n, op: same(f"{n} {op}"),
        text_names | number_names,
        st.sampled_from(["IS NULL", "IS NOT NULL"]),
    ),
    st.builds(
        lambda n, op, v: on_number(n, f"{op} {v}"),
        number_names,
        st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
        numbers,
    ),
    st.builds(
        lambda n, op, v, w: on_number(n, f"{op} {min(v, w)} AND {max(v, w)}"),
        number_names,
        st.sampled_from(["BETWEEN", "NOT BETWEEN"]),
        numbers,
        numbers,
    ),
)


def wider(parts: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    several = st.lists(parts, min_size=2, max_size=4)
    return st.one_of(
        st.builds(
            lambda op, each: (
                f" {op} ".join(p[0] for p in each),
                f" {op} ".join(p[1] for p in each),
            ),
            st.sampled_from(["AND", "OR"]),
            several,
        ).map(lambda p: (f"({p[0]})", f"({p[1]})")),
        parts.map(lambda p: (f"(NOT ({p[0]}))", f"(NOT ({p[1]}))")),
        parts.map(lambda p: (f"(({p[0]}) IS NULL)", f"(({p[1]}) IS NULL)")),
        parts.map(lambda p: (f"(({p[0]}) IS NOT NULL)", f"(({p[1]}) IS NOT NULL)")),
    )


expressions = st.recursive(atoms, wider, max_leaves=12)
flat = st.lists(st.tuples(st.sampled_from(["AND", "OR"]), atoms), min_size=1, max_size=6)
"""Without parentheses: AND binds tighter than OR."""
text_values = st.fixed_dictionaries({name: st.none() | texts for name in ("s", "t")})
number_values = st.fixed_dictionaries({name: st.none() | numbers.map(str) for name in ("m", "n")})
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)


def check(here: str, there: str, values: dict[str, str | None]) -> None:
    query = f"SELECT {there} FROM (SELECT :s AS s, :t AS t, :m AS m, :n AS n)"
    (expected,) = DATABASE.execute(query, values).fetchone()
    found = parse(here).run(values.get)
    assert found is (None if expected is None else bool(expected)), (here, values)


@given(expressions, text_values, number_values)
def test_expressions(
    pair: Pair, some: dict[str, str | None], others: dict[str, str | None]
) -> None:
    check(*pair, some | others)


@given(flat, text_values, number_values)
def test_precedence(
    parts: list[tuple[str, Pair]], some: dict[str, str | None], others: dict[str, str | None]
) -> None:
    here = "".join(f" {op} {part[0]}" for op, part in parts).split(" ", 2)[2]
    there = "".join(f" {op} {part[1]}" for op, part in parts).split(" ", 2)[2]
    check(here, there, some | others)
