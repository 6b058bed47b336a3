"""What a log says of what lasts: once when it begins, one a minute, one when it is over."""

from __future__ import annotations

import pytest


def told(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    """The lines with that text, shortened to what they are of it."""
    found = [each.getMessage() for each in caplog.records if text in each.getMessage()]
    return [line.split(": ")[0] if line.startswith(("still: ", "over: ")) else "" for line in found]


TWO_MINUTES: list[str] = ["", "still", "still", "over"]
"""Of what began, lasted for a little more than two minutes, and is over."""
