"""What is wrong with one input.

Time is that of the CPU in this thread, and counts where it is over the limit three times in a row,
so that a busy machine is no finding. Memory is the peak of ``tracemalloc`` while the target runs,
measured for one input out of ``TRACED_EVERY`` (it makes everything several times slower), and again
twice where it is over the budget: what a cache keeps the first time is no finding either.
"""

from __future__ import annotations

import time
import traceback
import tracemalloc
from pathlib import Path
from typing import Final, NamedTuple

from .parsers import DifferenceError, Parser, Run

TRACED_EVERY: Final = 16
_HERE: Final = Path(__file__).resolve().parent
_AGAIN: Final = 3


class Finding(NamedTuple):
    """A defect, or a budget that says something else than the code does."""

    kind: str
    """Findings of one kind are one defect, as far as can be told."""
    text: str


class Refused(NamedTuple):
    """A typed error; its text may differ between twins."""


_REFUSED: Final = Refused()


class Examiner:
    """Looks at the inputs of one target, one after the other."""

    def __init__(self, parser: Parser, *, timed: bool = True) -> None:
        """``timed``: whether the time counts."""
        self._parser: Final = parser
        self._timed: Final = timed
        self.executions: int = 0
        self.accepted: int = 0
        """Of these so many were not refused."""

    def look_at(self, data: bytes, *, traced: bool | None = None) -> Finding | None:
        """The first thing that is wrong. ``traced``: measure memory now, whoever's turn it is."""
        parser, number = self._parser, self.executions
        self.executions += 1
        began = time.perf_counter()
        try:
            found: object = parser.run(data)
        except parser.errors:
            found = _REFUSED
        except Exception as error:  # noqa: BLE001 - any other is what is looked for
            return _raised(error)
        took_ms = (time.perf_counter() - began) * 1000
        if found is not _REFUSED:
            self.accepted += 1
        if parser.twin is not None and (finding := self._differs(found, data)):
            return finding
        if self._timed and took_ms > parser.most_ms and (finding := self._slow(data)):
            return finding
        if traced if traced is not None else number % TRACED_EVERY == 0:
            return self._large(data)
        return None

    def _differs(self, found: object, data: bytes) -> Finding | None:
        assert self._parser.twin is not None
        try:
            expected = self._parser.twin(data)
        except self._parser.errors:
            expected = _REFUSED
        except Exception as error:  # noqa: BLE001 - as above
            return _raised(error)
        if found == expected or repr(found) == repr(expected):
            return None
        return Finding("differs", f"{found!r:.500}\n  and its twin {expected!r:.500}")

    def _slow(self, data: bytes) -> Finding | None:
        took = min(self._cpu_ms(data) for _ in range(_AGAIN))
        if took <= self._parser.most_ms:
            return None
        return Finding("slow", f"{len(data)} bytes take {took:.0f} ms")

    def _cpu_ms(self, data: bytes) -> float:
        began = time.thread_time()
        _quietly(self._parser.run, data)
        return (time.thread_time() - began) * 1000

    def _large(self, data: bytes) -> Finding | None:
        most = self._parser.base_bytes + self._parser.bytes_per_byte * len(data)
        took = 0
        for _ in range(_AGAIN):
            took = peak_of(self._parser.run, data)
            if took <= most:
                return None
        return Finding("large", f"{len(data)} bytes allocate {took}, at most {most} may be")


def peak_of(run: Run, data: bytes) -> int:
    """Bytes that one input allocates, at its worst moment."""
    tracemalloc.start()
    try:
        _quietly(run, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _quietly(run: Run, data: bytes) -> None:
    try:
        run(data)
    except Exception:  # noqa: BLE001 - it was looked at before
        return


def _raised(error: Exception) -> Finding:
    """The kind names the innermost line of the product, so that one defect is one finding."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if Path(each.filename).resolve().parent != _HERE]
    place = (ours or frames)[-1]
    kind = "differs" if isinstance(error, DifferenceError) else type(error).__name__
    where = f"{Path(place.filename).parent.name}/{Path(place.filename).name}:{place.lineno}"
    text = "".join(traceback.format_exception(error, limit=-6))
    return Finding(f"{kind} at {where}", text)
