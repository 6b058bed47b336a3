"""The language itself: how words are read, what is said of a scenario that fails, what REWRITE
changes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ..sim import ManualClock
from .language import Driver, ScenarioError, parse, play, step

SCENARIO = """\
# Two steps, and what they say.
put 3 apples
put 4
have apples pears
----
3 apples
4 things
apples, pears

# The last one.
nothing

have x
----
x
"""


class Shop(Driver):
    @step("put {count}[ {what}]")
    async def put(self, count: int, what: str = "things") -> str:
        return f"{count} {what}"

    @step("have {names}")
    def have(self, names: list[str]) -> list[str]:
        return [", ".join(names)]

    @step("nothing")
    def nothing(self) -> None:
        pass

    @step("break")
    def breaks(self) -> None:
        raise KeyError("broken")


def played(folder: Path, text: str, *, rewrite: bool = False) -> str:
    """What the file is afterwards."""
    path = folder / "shop.txt"
    path.write_text(text)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            await play(path, Shop(folder, stack, ManualClock()), rewrite=rewrite)

    asyncio.run(run())
    return path.read_text()


def test_a_scenario_that_holds(tmp_path: Path) -> None:
    assert played(tmp_path, SCENARIO) == SCENARIO
    assert played(tmp_path, SCENARIO, rewrite=True) == SCENARIO


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ("4 things", "5 things", "shop.txt:3: put 4"),
        ("4 things\n", "", "shop.txt:3: put 4"),
        ("pears\n\n#", "pears\nmore\n\n#", "shop.txt:4: have apples pears"),
        ("\nx\n", "\ny\n", "shop.txt:13: have x"),
    ],
)
def test_what_differs_is_named_with_its_step(
    tmp_path: Path, before: str, after: str, where: str
) -> None:
    wrong = SCENARIO.replace(before, after, 1)
    with pytest.raises(ScenarioError, match=f"(?s){where}\n  expected:.*\n  found:\n"):
        played(tmp_path, wrong)
    assert played(tmp_path, wrong, rewrite=True) == SCENARIO


def test_expectations_are_written_where_there_are_none(tmp_path: Path) -> None:
    empty = SCENARIO.replace("3 apples\n4 things\napples, pears\n", "").removesuffix("x\n")
    assert played(tmp_path, empty, rewrite=True) == SCENARIO


def test_an_unknown_step_is_told_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match=r"(?s)no such step.*have {names}.*put {count}"
    ) as error:
        played(tmp_path, "put many\n----\n")
    assert str(tmp_path / "shop.txt:1: put many") in error.value.__notes__[0]


def test_where_an_error_comes_from_is_noted(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as error:
        played(tmp_path, "nothing\n----\n\nbreak\n----\n")
    assert error.value.__notes__ == [f"{tmp_path}/shop.txt:4: break"]


def test_steps_that_expect_nothing_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "shop.txt"
    path.write_text("put 1\n----\n1 things\n\nput 2\n")
    with pytest.raises(ScenarioError, match=r"shop\.txt:5: put 2: nothing is expected"):
        parse(path)
