"""What can go wrong in the demo without being a bug."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on; the text is one line that says why and what to do.

    ``details`` are further lines to show below it, such as the end of a log.
    """

    def __init__(self, problem: str, details: str = "") -> None:
        super().__init__(problem)
        self.details = details


class DaemonDied(DemoError):
    """A daemon ended on its own."""
