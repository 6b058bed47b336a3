"""What the list says of a parser, and what the rows are made with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

Run = Callable[[bytes], object]

MOST_MS: Final = 50
"""So long one input may take, on the CPU. The loop of a daemon stands still meanwhile."""
BASE_BYTES: Final = 256 << 10
"""So much any input may allocate, however short, where the row says nothing else."""


class Parser(NamedTuple):
    """One row: a target, what it stands for, and what it may cost."""

    name: str
    """Of the target, and of its folder in ``corpus``."""
    functions: tuple[str, ...]
    """``room/module.py: function``: those that the target runs through and that read its bytes."""
    limits: tuple[str, ...]
    """``room/module.py: NAME`` of the constants that bound bytes, depth or count."""
    run: Run
    """Of one input. What it returns is compared with what ``twin`` returns."""
    errors: tuple[type[Exception], ...] = ()
    """What it may raise: the typed refusals."""
    twin: Run | None = None
    """Another way to the same answer; a refusal is an answer too."""
    bytes_per_byte: int = 64
    """What it may allocate for each byte of the input, on top of ``base_bytes``."""
    base_bytes: int = BASE_BYTES
    """Buffers, and what files are mapped into."""
    bounded_by: str = ""
    """What bounds the input where there is no constant: another parser, an operator's own file."""
    opens_files: bool = False
    """It writes the input into files and opens them: a hundred times slower."""
    most_ms: int = MOST_MS
    seeds: Callable[[], Iterable[bytes]] = tuple
    """Inputs that our own encoders make; ``python -m tests.fuzzing.seeds`` writes them down."""


class DifferenceError(AssertionError):
    """Two answers that have to be the same are not."""


def same(found: object, expected: object, what: str) -> None:
    """Raises ``DifferenceError``. Compared as they are shown: NaN is not even itself."""
    if found != expected and repr(found) != repr(expected):
        raise DifferenceError(f"{what}: {found!r:.300} is not {expected!r:.300}")


def text_of(data: bytes) -> str:
    """Any text: what is no UTF-8 is replaced, as where files and headers are read."""
    return data.decode("utf-8", "replace")


def all_of(steps: Any) -> Any:
    """What something returns that works in slices."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
