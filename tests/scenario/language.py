"""Scenarios as text: steps, a line each, ``----``, and what they say (cockroachdb/datadriven).

A file is a list of blocks::

    # What this is about; comments and blank lines may stand between steps.
    register broker-a at 10.0.0.1:10911 topics Orders(8)
    route Orders
    ----
    ok
    broker-a 10.0.0.1:10911 queues 8

The steps of a block are what stands before its ``----``; what they say stands after it, up to a
blank line. A step that says nothing has no line there. All steps of a file happen in one world.

A ``Driver`` is the world, its methods are the steps. The pattern says how a step is written, the
annotations how its words are read: ``str`` one word, ``int`` and ``float`` a number, ``list[str]``
all words that are left; ``[...]`` may be left out, and then the parameter's default counts::

    @step("advance {seconds} s")
    async def advance(self, seconds: float) -> None: ...
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from ..sim import ManualClock

RULE: Final = "----"
_WORDS: Final[dict[Any, tuple[str, Callable[[str], Any]]]] = {
    str: (r"\S+", str),
    str | None: (r"\S+", str),
    int: (r"-?\d+", int),
    float: (r"-?\d+(?:\.\d+)?", float),
    list[str]: (r"\S.*", str.split),
    list[str] | None: (r"\S.*", str.split),
}
"""By annotation: how it looks, and how it is read."""
_Method = TypeVar("_Method", bound=Callable[..., Any])

Said = str | Iterable[str] | None
"""What a step returns: nothing, a line, or some (a generator may yield them)."""


class ScenarioError(Exception):
    """A file that cannot be played, or one whose steps say something else."""


class Step(NamedTuple):
    pattern: str
    regex: re.Pattern[str]
    name: str
    readers: dict[str, Callable[[str], Any]]


def step(pattern: str) -> Callable[[_Method], _Method]:
    """This method is a step of its driver."""

    def mark(method: _Method) -> _Method:
        method.__dict__["pattern"] = pattern
        return method

    return mark


def _compiled(method: Callable[..., Any]) -> Step:
    hints = get_type_hints(method)
    pattern: str = method.__dict__["pattern"]
    names = re.findall(r"{(\w+)}", pattern)
    regex = re.escape(pattern).replace(r"\[", "(?:").replace(r"\]", ")?")
    for name in names:
        regex = regex.replace(rf"\{{{name}\}}", f"(?P<{name}>{_WORDS[hints[name]][0]})")
    readers = {name: _WORDS[hints[name]][1] for name in names}
    return Step(pattern, re.compile(regex), method.__name__, readers)


class Driver:
    """The world of one scenario. ``stack`` closes at its end what was opened in it."""

    steps: list[Step]

    def __init__(self, folder: Path, stack: AsyncExitStack, clock: ManualClock) -> None:
        self.folder = folder
        self.stack = stack
        self.clock = clock

    def __init_subclass__(cls) -> None:
        methods = {name: getattr(cls, name) for name in dir(cls)}
        cls.steps = [_compiled(m) for m in methods.values() if hasattr(m, "pattern")]

    async def start(self) -> None:
        """Before the first step."""

    async def perform(self, text: str) -> list[str]:
        """What this step says."""
        for known in self.steps:
            if (match := known.regex.fullmatch(text)) is not None:
                words = {k: known.readers[k](v) for k, v in match.groupdict().items() if v}
                said: Said = getattr(self, known.name)(**words)
                if inspect.isawaitable(said):
                    said = await said
                lines = [] if said is None else [said] if isinstance(said, str) else said
                return [line.rstrip() for line in lines]
        patterns = "\n  ".join(sorted(known.pattern for known in self.steps))
        raise ScenarioError(f"there is no such step, only:\n  {patterns}")


@dataclass
class Block:
    """Steps with their line numbers, and what they are expected to say, which begins at a line."""

    steps: list[tuple[int, str]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    begins: int = 0


def parse(path: Path) -> list[Block]:
    """Raises ``ScenarioError`` for steps without ``----``."""
    blocks, block = list[Block](), Block()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if block.begins and line:
            block.expected.append(line)
        elif block.begins:
            block = Block()
        elif line == RULE:
            block.begins = number + 1
            blocks.append(block)
        elif line and not line.startswith("#"):
            block.steps.append((number, line))
    if block.steps and not block.begins:
        number, text = block.steps[0]
        raise ScenarioError(f"{path}:{number}: {text}: nothing is expected, not even {RULE}")
    return blocks


async def play(path: Path, driver: Driver, *, rewrite: bool = False) -> None:
    """Every step of a file. Raises ``ScenarioError`` for the first block that says something else;
    with ``rewrite`` the file is made to say what the steps say."""
    lines, moved = path.read_text().splitlines(), 0
    for block in parse(path):
        said = list[tuple[int, str, str]]()
        for number, text in block.steps:
            try:
                said += [(number, text, line) for line in await driver.perform(text)]
            except Exception as error:
                error.add_note(f"{path}:{number}: {text}")
                raise
        found = [line for _, _, line in said]
        if found == block.expected:
            continue
        if not rewrite:
            raise ScenarioError(_difference(path, block, said))
        begins, ends = (block.begins - 1 + moved, block.begins - 1 + moved + len(block.expected))
        lines[begins:ends] = found
        moved += len(found) - len(block.expected)
    if rewrite:
        path.write_text("\n".join(lines) + "\n")


def _difference(path: Path, block: Block, said: list[tuple[int, str, str]]) -> str:
    """Named is the step that said the first line that differs; where lines are missing, the
    last."""
    number, text = block.steps[-1] if block.steps else (block.begins - 1, RULE)
    for (whose, what, line), expected in zip(
        said, [*block.expected, *[None] * len(said)], strict=False
    ):
        if line != expected:
            number, text = whose, what
            break
    expected_lines = [f"    {line}" for line in block.expected or ["(nothing)"]]
    found_lines = [f"    {line}" for _, _, line in said] or ["    (nothing)"]
    parts = (f"{path}:{number}: {text}", "  expected:", *expected_lines, "  found:", *found_lines)
    return "\n".join(parts)
