"""What tests of queries share."""

from __future__ import annotations

import pytest

from ..simulated_cluster import SimClock


@pytest.fixture
def clock() -> SimClock:
    return SimClock()
