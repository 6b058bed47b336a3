"""``docs/where-is.md``: its rules stand where the page says, with the numbers that it says."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import msgspec
import pytest

from .names import REPOSITORY, Named, module_of, named_in

PAGE = " ".join((REPOSITORY / "docs" / "where-is.md").read_text("utf-8").split())
NUMBERS = re.findall(r"`([\w/]+\.py: [\w.]+)` = `([^`]+)`", PAGE)
RULES = 11


def value_of(named: Named) -> Any:
    """What a name stands for; of a field its default."""
    value: Any = module_of(named.path)
    for part in named.name.split("."):
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            return {field.name: field.default for field in msgspec.structs.fields(value)}[part]
        defaults = getattr(value, "_field_defaults", {})
        value = defaults[part] if part in defaults else getattr(value, part)
    return value


def test_every_rule_is_in_one_file() -> None:
    assert len(re.findall(r"\| [^|`]+ \| `[\w/]+\.py: [\w.]+` \|", PAGE)) == RULES


@pytest.mark.parametrize("named", sorted(set(named_in(PAGE))), ids=str)
def test_a_name_can_be_imported(named: Named) -> None:
    if named.name:
        value_of(named)
    else:
        module_of(named.path)


@pytest.mark.parametrize(("where", "text"), NUMBERS)
def test_a_number_is_that_of_the_code(where: str, text: str) -> None:
    path, _, name = where.partition(": ")
    assert str(value_of(Named(path, name))) == text


def test_there_are_numbers() -> None:
    assert len(NUMBERS) > RULES - 2


class _Pair(NamedTuple):
    size: int = 3


class _Struct(msgspec.Struct):
    size: int = 4


@pytest.mark.parametrize(
    ("name", "value"), [("_Pair.size", 3), ("_Struct.size", 4), ("RULES", RULES)]
)
def test_the_value_of_a_field_is_its_default(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(f"{__name__}.module_of", lambda _path: sys.modules[__name__])
    assert value_of(Named("here.py", name)) == value
