"""Campaigns: one target after the other, with what came of it."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

from .examine import Examiner
from .findings import Findings, written
from .mutation import MOST_BYTES, inputs
from .parsers import Parser
from .registry import CORPUS, corpus_of

BUILD: Final = Path("build/fuzz")
_HANGS_S: Final = 30
_COVERAGE: Final = re.compile(r"\bcov: (\d+)")
_EXECUTED: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


class Outcome(NamedTuple):
    """What a campaign came to."""

    target: str
    executions: int
    seconds: float
    coverage: int | None
    """Edges of the product's Python code that were met; None without ``atheris``."""
    findings: list[Path]


def is_guided() -> bool:
    """``atheris`` is installed."""
    return importlib.util.find_spec("atheris") is not None


class Campaigns:
    """One after the other. Use as ``with``."""

    def __init__(self, build: Path = BUILD, *, guided: bool | None = None) -> None:
        """``build`` keeps corpora and findings. ``guided``: by coverage, if that is there."""
        self._build: Final = build
        self.guided: Final = is_guided() if guided is None else guided and is_guided()
        self._guide: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        (self._build / "findings").mkdir(parents=True, exist_ok=True)
        if self.guided:
            command = [sys.executable, "-m", "tests.fuzzing.guided", f"{self._build}/findings"]
            pipe = subprocess.PIPE
            with (self._build / "guide.txt").open("w") as said:  # it names every module
                self._guide = subprocess.Popen(
                    command, stdin=pipe, stdout=pipe, stderr=said, text=True
                )
            assert self._guide.stdout is not None
            self._guide.stdout.readline()  # it is ready
        return self

    def __exit__(self, *_: object) -> None:
        if self._guide is not None:
            self._guide.communicate()

    def run(self, parser: Parser, executions: int, seed: int, most_s: float) -> Outcome:
        """So many inputs, or as many as ``most_s`` seconds allow."""
        campaign = _plain if self._guide is None else self._guided
        began = time.monotonic()
        executed, coverage = campaign(parser, executions, seed, most_s, self._build)
        took = time.monotonic() - began
        return Outcome(parser.name, executed, took, coverage, _that_repeat(parser, self._build))

    def _guided(
        self, parser: Parser, executions: int, seed: int, most_s: float, build: Path
    ) -> tuple[int, int | None]:
        """What is worth keeping stays in ``build``, where the next campaign goes on."""
        assert self._guide is not None
        assert self._guide.stdin is not None
        assert self._guide.stdout is not None
        kept, crashes = build / "corpus" / parser.name, build / "findings" / parser.name
        for folder in (kept, crashes, build / "output"):
            folder.mkdir(parents=True, exist_ok=True)
        output = build / "output" / f"{parser.name}.txt"
        arguments = [
            f"-runs={executions}", f"-max_total_time={int(most_s) or 1}", f"-seed={seed}",
            f"-max_len={MOST_BYTES}", f"-timeout={_HANGS_S}", "-rss_limit_mb=4096",
            "-print_final_stats=1", f"-artifact_prefix={crashes}/",
            str(kept), str(CORPUS / parser.name),
        ]  # fmt: skip
        print(
            json.dumps([parser.name, str(output), *arguments]), file=self._guide.stdin, flush=True
        )
        code = self._guide.stdout.readline().strip()
        said = output.read_text(errors="replace")
        executed = _EXECUTED.findall(said)
        if code != "0" or not executed:
            print(f"{parser.name}: ended with {code}, see {output}")
        met = [int(each) for each in _COVERAGE.findall(said)]
        return int(executed[-1]) if executed else 0, max(met, default=0)


def _plain(
    parser: Parser, executions: int, seed: int, most_s: float, build: Path
) -> tuple[int, int | None]:
    """By mutation alone."""
    examiner, found = Examiner(parser), Findings(build / "findings", parser.name)
    until = time.monotonic() + most_s
    known = corpus_of(parser)
    for data in known:  # so that caches are filled
        examiner.look_at(data)
    known += [path.read_bytes() for path in sorted((build / "corpus" / parser.name).glob("*"))]
    for number, data in enumerate(inputs(known, seed, parser.name)):
        if number >= executions or time.monotonic() > until:
            break
        if (finding := examiner.look_at(data)) is not None:
            found.add(finding, data)
    return examiner.executions, None


def _that_repeat(parser: Parser, build: Path) -> list[Path]:
    """Looked at again without instruments, which cost time and memory: what is no finding then goes
    away."""
    found = []
    for path in written(build / "findings", parser.name):
        if is_hang(path) or repeat(parser, path.read_bytes()) is not None:
            found.append(path)
        else:
            path.unlink()
            path.with_name(path.name + ".txt").unlink(missing_ok=True)
    return found


def is_hang(path: Path) -> bool:
    """libFuzzer wrote it: the process ended, or would not have. Only a process can repeat it."""
    return path.name.startswith(("timeout-", "crash-", "oom-"))


def repeat(parser: Parser, data: bytes) -> str | None:
    """What is wrong with an input; None: nothing."""
    examiner = Examiner(parser)
    for seed in (*corpus_of(parser), data):
        finding = examiner.look_at(seed, traced=True)
    return None if finding is None else f"{finding.kind}\n{finding.text}"


def fresh_seed() -> int:
    return random.randrange(1, 1_000_000)
