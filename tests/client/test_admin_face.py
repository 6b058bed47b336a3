"""``Admin``: every operation is typed, says what it does, and has its blocking twin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from aiorocketmq import Admin, sync

OPERATIONS = {
    name: member
    for name, member in inspect.getmembers(Admin, inspect.isfunction)
    if not name.startswith("_") and name not in ("start", "stop")
}


def test_there_is_something_to_look_at() -> None:
    assert len(OPERATIONS) > 60
    assert all(inspect.iscoroutinefunction(member) for member in OPERATIONS.values())


@pytest.mark.parametrize(("name", "operation"), OPERATIONS.items())
def test_an_operation_is_typed_and_documented(name: str, operation: Callable[..., Any]) -> None:
    hints = get_type_hints(operation)
    parameters = inspect.signature(operation).parameters
    assert hints.keys() == (parameters.keys() - {"self"}) | {"return"}
    assert Any not in hints.values()
    doc = operation.__doc__ or ""
    assert doc, f"{name} says nothing"
    assert "timestamp_ms" not in parameters or "time" in doc, (
        "what the unit is, or what the time means"
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_a_blocking_twin(name: str) -> None:
    twin = getattr(sync.Admin, name)
    assert not inspect.iscoroutinefunction(twin)


def test_no_twin_without_an_operation() -> None:
    twins = {name for name in vars(sync.Admin) if not name.startswith("_")}
    assert twins == OPERATIONS.keys()
