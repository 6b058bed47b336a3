"""Programs import this first: Ctrl-C while the rest is still being imported ends them without a
traceback.

Python ends them by the signal then (130 in a shell). What runs later catches ``KeyboardInterrupt``
itself.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Final

_otherwise: Final = sys.excepthook


def _excepthook(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _otherwise(kind, error, traceback)


sys.excepthook = _excepthook
