"""What a running query cannot read any more: an error, or a warning and a count
(``failOnDataLoss``)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ..access.errors import DataLossError
from ..access.options import SourceOptions
from .coverage import report

__all__ = ["Losses"]

log: Final = logging.getLogger(__name__)


class Losses:
    """Of one query; a trigger that finds what the one before found tells and counts nothing. What
    none of the two found is forgotten: a query may run for months."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._found: set[str] = set()
        """By the trigger that is under way ..."""
        self._before: set[str] = set()
        """... and by the one before."""
        self._missing: set[str] = set()
        """A query that ends by itself looks for it at its beginning and its end, others only
        once."""
        self.times = 0
        self.messages = 0
        """As far as it is known how many; before any filter."""

    def next_trigger(self) -> None:
        self._before, self._found = self._found, set()

    def found(
        self, what: str, instead: str = "", *, messages: int = 0, same: str | None = None
    ) -> None:
        """``instead``: how the query goes on. ``same``: what does not change while it is the same
        loss, if ``what`` does. Raises ``DataLossError``, unless that is allowed."""
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        if self.warn(f"{what} (failOnDataLoss=false{instead})", same):
            self.times += 1
            self.messages += messages

    def report(self, missing: Iterable[str]) -> None:
        """What is not there to be read at present. Raises ``CoverageError``, or warns."""
        new = [what for what in missing if what not in self._missing]
        report(self._options, new)
        self._missing.update(new)

    def warn(self, what: str, same: str | None = None) -> bool:
        """Whether that was news."""
        key = same or what
        is_news = key not in self._found | self._before
        self._found.add(key)
        if is_news:
            log.warning("%s", what)
        return is_news
