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
    """Of one query; a trigger that finds what the one before found tells and counts nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._told: set[str] = set()
        self.times = 0
        self.messages = 0
        """As far as it is known how many; before any filter."""

    def found(self, what: str, instead: str = "", *, messages: int = 0) -> None:
        """``instead``: how the query goes on. Raises ``DataLossError``, unless that is allowed."""
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        if self.warn(f"{what} (failOnDataLoss=false{instead})"):
            self.times += 1
            self.messages += messages

    def report(self, missing: Iterable[str]) -> None:
        """What is not there to be read at present. Raises ``CoverageError``, or warns."""
        new = [what for what in missing if what not in self._told]
        report(self._options, new)
        self._told.update(new)

    def warn(self, what: str) -> bool:
        """Whether that was news."""
        if what in self._told:
            return False
        log.warning("%s", what)
        self._told.add(what)
        return True
