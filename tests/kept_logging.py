"""Programs that run in the process of a test set up its logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Afterwards: a program logs to the standard error of this test, and the next one has
    another."""
    loggers = [logging.getLogger(), logging.getLogger("aiorocketmq")]
    before = [(each.handlers[:], each.level) for each in loggers]
    try:
        yield
    finally:
        for each, (handlers, level) in zip(loggers, before, strict=True):
            each.handlers[:] = handlers
            each.setLevel(level)
