"""What a daemon comes to know stays, and the garbage collector looks at it once.

A full collection looks at every object that may be part of a circle, 0.45 µs each, and the event
loop waits: with 20,000 consume queues (300,000 objects) 0.14 s, and one comes whenever a quarter
was added. So what survived a full collection of many objects is set aside (``gc.freeze``), and full
collections come early, while there are few to look at.

What was set aside is still freed as soon as nobody refers to it. Only circles are not: what comes
and goes in a daemon must not end as one. Connections are the only ones of which there are many
(``Invocations.fail`` opens theirs).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MIN_OBJECTS: Final = 10_000
"""Objects, 4 ms: a daemon without much to do has a thousand, and they come and go."""
_THRESHOLDS: Final = (700, 10, 2)
"""A full collection after 23,000 new objects, 10 ms. (With Python's own 10 for the last it is 40
ms.)"""


@contextmanager
def looked_at_once() -> Iterator[None]:
    """A daemon has loaded its tables, and now works. Of the whole process."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    # of nothing: a full collection is due when a quarter of what the last one left has been added
    gc.collect()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_collected)
    try:
        yield
    finally:
        gc.callbacks.remove(_collected)
        gc.set_threshold(*before)


def _collected(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2 and len(gc.get_objects()) >= _MIN_OBJECTS:
        gc.freeze()
