"""A group of brokers that elects its leader, while somebody looks at it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from .cluster import asynchronous, until
from .console_browser import ConsoleProcess, a_page, chromium
from .console_client import Asked, a_console
from .raft_group import GROUP, RaftGroup

_MEMBER = re.compile(r"term (\d+), (n\d) of raft-a, leader (\w+)")


@pytest.fixture(scope="module")
def raft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaftGroup]:
    with RaftGroup(tmp_path_factory.mktemp("console-raft")) as group:
        group.start()
        asyncio.run(group.complete())
        yield group


async def members(asked: Asked) -> dict[str, tuple[int, str]]:
    """What the overview shows: term and leader by member."""
    found = _MEMBER.findall(await asked.page("/"))
    return {name: (int(term), leader) for term, name, leader in found}


@asynchronous
async def test_members_with_their_term_leader_and_lag(raft: RaftGroup) -> None:
    leader = await raft.complete()
    async with a_console(raft.namesrv) as asked:

        async def shown() -> bool:
            found = await members(asked)
            return set(found) == set(raft.names) and {each[1] for each in found.values()} == {
                leader
            }

        await until(shown, "the page shows three members of one leader")
        page = await asked.page("/")
        assert len({term for term, _ in (await members(asked)).values()}) == 1
        assert page.count(">follower<") == 2
        assert page.count(">leader<") == 1
        behind = re.findall(r'data-label="Behind">(n\d) ([\d,]+), (n\d) ([\d,]+)<', page)
        ((first, _, second, _),) = behind
        assert {first, second} == set(raft.names) - {leader}

        async def well() -> bool:
            return "Nothing is wrong" in await asked.page("/")

        await until(well, "nothing is wrong")
        follower = min(set(raft.names) - {leader})
        raft.kill(follower)

        async def said() -> bool:
            return f"{follower} of the group {GROUP} is not there" in await asked.page("/")

        await until(said, "the page says that a member is gone")
        await asyncio.to_thread(raft.start, follower)
        await raft.complete()
        await until(well, "nothing is wrong any more")


def test_the_leader_is_killed_while_the_page_is_open(raft: RaftGroup, tmp_path: Path) -> None:
    """The page says so, and shows the new leader and its term by itself."""
    chromium()
    old = asyncio.run(raft.complete())
    console = ConsoleProcess(raft.namesrv, tmp_path)
    try:
        assert console.log_path.read_text() == f"console      {console.url}/\n"
        with a_page(console.url) as (page, _):
            page.goto("/")
            page.get_by_text(f"leader {old}").first.wait_for()
            page.get_by_text("Nothing is wrong").wait_for()
            term = shown_term(page)
            page.evaluate("window.same = true")
            raft.kill(old)
            page.locator("ul.troubles li.bad").first.wait_for()
            new = elsewhere(raft.leader, old)
            page.wait_for_function(
                "leader => [...document.querySelectorAll('#brokers tbody tr')].filter("
                "row => row.innerText.includes('leader ' + leader)).length === 2",
                arg=new,
            )
            assert shown_term(page) > term
            with ThreadPoolExecutor(1) as pool:
                pool.submit(raft.start, old).result()
            elsewhere(raft.complete)
            page.get_by_text("Nothing is wrong").wait_for()
            assert page.locator("#brokers tbody tr").count() == 3
            assert page.evaluate("window.same")  # nobody has loaded it again
    finally:
        assert console.end() == 0


def shown_term(page: Any) -> int:
    return max(int(term) for term, _, _ in _MEMBER.findall(page.inner_text("#brokers")))


def elsewhere(work: Any, *arguments: str) -> str:
    """In a thread: this one has the loop of the browser."""
    with ThreadPoolExecutor(1) as pool:
        return str(pool.submit(lambda: asyncio.run(work(*arguments))).result())
