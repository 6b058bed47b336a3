"""Defects to be planted, in the order in which they were run; a defect's number is its place here.

``defect.py`` says what one is, ``first.py`` has the first dozen, every other file a later one, or a
part of it, and how it was chosen. ``__main__.py`` plants them, each alone, and runs seeds until one
finds it; ``other_tests.py``, beside this folder, says whether other tests do.
"""

from __future__ import annotations

from .attack import ATTACKED
from .blind import BLIND
from .blind_again import REVERTED
from .blind_last import LAST
from .blind_made_up import MADE_UP
from .blind_services import IN_SERVICES
from .blind_store import IN_THE_STORE
from .first import KNOWN
from .unseen import UNSEEN

DEFECTS = (
    *KNOWN,
    *BLIND,
    *UNSEEN,
    *REVERTED,
    *MADE_UP,
    *ATTACKED,
    *IN_THE_STORE,
    *IN_SERVICES,
    *LAST,
)
