"""The innermost steps of the hot path, twice: compiled (``_compiled``, Cython) and in Python (the
``pure_*`` modules and the rules elsewhere in ``protocol``). Here, and only here, one of both is
chosen.

A leaf is a pure function: bytes and numbers in, bytes and numbers out, or into a buffer that is
handed over. It knows no socket, loop or store, and keeps nothing; property tests hold it equal to
its twin, errors included. None holds the GIL for a millisecond: what takes longer is cut into
several calls, or lets other threads run.

Imports the twins, from all over ``protocol``. Start with the branches below.

A new leaf: its twin first; its ``.pxi`` (and ``.h``) beside ``_compiled.pyx``, which includes it;
one line in each branch below, or, where the twin stands with the rules of its subject, ``@leaf``
there (its type is the twin's); in ``tests/remoting/protocol/leaves/`` a test of equality, and a
target in ``fuzz.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .sources import fingerprint

PURE_VARIABLE: Final = "AIOROCKETMQ_PURE"


def _why_not_compiled(folder: Path) -> str:
    """Empty: the compiled module is there and was made from these sources (where they are at
    hand)."""
    if environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        return f"{PURE_VARIABLE} is set"
    try:
        from . import _compiled
    except ImportError:
        return "not built: pip found no C compiler, or pip install -e . was not run in this clone"
    if fingerprint(folder) not in (0, _compiled.BUILT_FROM):
        return "built from other sources: pip install -e . builds it again"
    return ""


_reason: Final = _why_not_compiled(Path(__file__).parent)
KIND: Final = f"pure Python ({_reason})" if _reason else "compiled"
"""Which of both runs, in words: ``compiled`` or ``pure Python (why)``."""

if TYPE_CHECKING or _reason:
    from .pure_answers import FrameTemplate
    from .pure_checksums import crc32
    from .pure_frames import split_frames
    from .pure_headers import Headers
    from .pure_index import KeyEntries, chain_items, record_entries
    from .pure_replies import Replies

    _in_use = None
else:
    from . import _compiled

    _in_use = _compiled

    FrameTemplate = _compiled.FrameTemplate
    Headers = _compiled.Headers
    Replies = _compiled.Replies
    chain_items = _compiled.chain_items
    crc32 = _compiled.crc32
    KeyEntries = _compiled.KeyEntries
    record_entries = _compiled.record_entries
    split_frames = _compiled.split_frames

_Twin = TypeVar("_Twin", bound=Callable[..., object])
TWINS: Final[dict[str, Callable[..., Any]]] = {}
"""Those that ``leaf`` has seen."""


def leaf(twin: _Twin) -> _Twin:
    """Put the compiled leaf of that name in the place of a twin, if they run."""
    TWINS[twin.__name__] = twin
    return getattr(_in_use, twin.__name__, twin)


__all__ = [
    "KIND",
    "PURE_VARIABLE",
    "TWINS",
    "FrameTemplate",
    "Headers",
    "KeyEntries",
    "Replies",
    "chain_items",
    "crc32",
    "leaf",
    "record_entries",
    "split_frames",
]
