"""``python -m tests.fuzzing.guided``: targets under ``atheris`` (libFuzzer), for ``campaign.py``.

What is of the product and written in Python is instrumented once, which takes some seconds; then
each target gets a process of its own, forked off. libFuzzer would end it at the first error, so
findings are written down here and it goes on; only a crash of the interpreter, or an input that
takes 30 s, ends it. Of a compiled leaf the twin is instrumented, which runs with it.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
from pathlib import Path
from typing import Any, Final

import atheris

_BLOWN_UP: Final = 0.02
"""Of the inputs so many are made by our own mutation: libFuzzer seldom repeats something thousands
of times."""


def main(findings: Path) -> None:
    """A line of standard input is a JSON list: a target, the file for what libFuzzer says, its
    arguments. It is answered with a line when that target is done."""
    with atheris.instrument_imports(include=["aiorocketmq"], enable_loader_override=False):
        from . import registry
    assert registry.PARSERS
    logging.disable(logging.CRITICAL)
    print("ready", flush=True)
    for line in sys.stdin:
        name, output, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            _begin(output)
            _fuzz(name, findings, arguments)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _begin(output: str) -> None:
    """libFuzzer writes to the descriptors of its process."""
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (fd, 1), (fd, 2)):
        os.dup2(here, there)


def _fuzz(name: str, findings: Path, arguments: list[str]) -> None:
    """Ends the process."""
    from .examine import Examiner
    from .findings import Findings
    from .mutation import blown_up
    from .registry import PARSERS, corpus_of

    examiner, found = Examiner(PARSERS[name]), Findings(findings, name)
    for data in corpus_of(PARSERS[name]):  # so that caches are filled
        examiner.look_at(data)

    def one(data: bytes) -> None:
        if (finding := examiner.look_at(data)) is not None:
            found.add(finding, data)

    def mutate(data: Any, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < _BLOWN_UP:
            return blown_up(bytes(data), chance)[:most]
        return bytes(atheris.Mutate(data, most))

    atheris.Setup([sys.argv[0], *arguments], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
