"""Every target for a moment: its first inputs are understood, and mutations of them harm nobody."""

from __future__ import annotations

import itertools
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.frames.frame import FrameError

from .campaign import Outcome, repeat
from .examine import Examiner
from .figures import write_figures
from .findings import Findings
from .mutation import blown_up, inputs
from .parsers import Parser, same
from .registry import PARSERS, corpus_of

SHORT = 300
SHORT_WITH_FILES = 30
"""The campaigns of ``make fuzz`` are a hundred times as long, and do not repeat themselves."""
SEED = 1


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("parser", PARSERS.values(), ids=list(PARSERS))
def test_nothing_is_wrong(parser: Parser) -> None:
    corpus = corpus_of(parser)
    examiner = Examiner(parser, timed=False)
    count = SHORT_WITH_FILES if parser.opens_files else SHORT
    for data in itertools.islice(inputs(corpus, SEED, parser.name), len(corpus) + count):
        finding = examiner.look_at(data)
        assert finding is None, f"{finding.kind}\n{finding.text}\n{data!r}"
    assert examiner.accepted or parser.name in REFUSES_ALL


REFUSES_ALL = {"certificates"}
"""Our own encoders make none."""


# --- the looking itself


def _strange(data: bytes) -> object:
    if data.startswith(b"raise"):
        raise KeyError("strange")
    if data.startswith(b"refuse"):
        raise FrameError("refused")
    if data.startswith(b"large"):
        return len(bytes(1 << 20))
    if data.startswith(b"slow"):
        return sum(range(3_000_000))
    return data[:3]


STRANGE = Parser("strange", (), (), _strange, (FrameError,), twin=lambda data: data[:3] or None)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"raise", "KeyError at"),
        (b"large", "differs"),
        (b"", "differs"),
        (b"refuse", "differs"),
        (b"anything", None),
    ],
)
def test_what_is_a_finding(data: bytes, kind: str | None) -> None:
    finding = Examiner(STRANGE, timed=False).look_at(data)
    assert (finding is None) is (kind is None)
    assert finding is None or finding.kind.startswith(str(kind))


def test_memory_and_time_are_findings() -> None:
    alone = STRANGE._replace(twin=None)
    large = Examiner(alone).look_at(b"large")
    assert large is not None
    assert large.kind == "large"
    assert Examiner(alone).look_at(b"refuse") is None
    slow = Examiner(alone._replace(most_ms=0)).look_at(b"slow")
    assert slow is not None
    assert slow.kind == "slow"


def test_a_finding_is_a_file_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    finding = Examiner(STRANGE).look_at(b"raise it")
    assert finding is not None
    findings = Findings(tmp_path, "strange")
    path = findings.add(finding, b"raise it")
    assert path is not None
    assert path.read_bytes() == b"raise it"
    text = path.with_name(path.name + ".txt").read_text()
    assert text.startswith(f"python -m tests.fuzzing --target strange --repeat {path}\n")
    assert "KeyError" in text
    assert findings.add(finding, b"raise again") is None  # of that kind one is enough
    assert "KeyError" in (repeat(STRANGE, path.read_bytes()) or "")


def test_the_same_seed_makes_the_same_inputs() -> None:
    one, other, else_ = (
        list(itertools.islice(inputs([b"some seed"], seed, "x"), 50)) for seed in (1, 1, 2)
    )
    assert one == other != else_
    assert one[0] == b"some seed"
    assert max(map(len, (blown_up(b"[", random.Random(n)) for n in range(50)))) > 1000


def test_two_answers_are_the_same_or_not() -> None:
    same(float("nan"), float("nan"), "nothing is itself")
    with pytest.raises(AssertionError, match="three: 3 is not 4"):
        same(3, 4, "three")


def test_figures_are_added_up(tmp_path: Path) -> None:
    path, one = tmp_path / "fuzz.json", Outcome("x", 10, 2.4, 7, [tmp_path])
    for outcome in (one, one, one._replace(findings=[], coverage=None), one):
        write_figures(path, [outcome], "2026-01-02")
    row = json.loads(path.read_text())["x"]
    assert (row["executions"], row["seconds"], row["coverage"]) == (40, 8, 7)
    assert (row["findings"], row["open"]) == (2, 1)  # it was mended, and came again
