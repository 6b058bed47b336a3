"""What the tests of the house read is let go when they are done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .names import trees


@pytest.fixture(scope="package", autouse=True)
def trees_are_let_go() -> Iterator[None]:
    """The garbage collector would look through all of them again and again, in every later test of
    this process."""
    yield
    trees.cache_clear()
