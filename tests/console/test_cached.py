"""Answers are asked for when somebody looks and they are old, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq.console.cached import MOST_KEYS, TOO_OLD, Cached, CachedByKey
from aiorocketmq.remoting.errors import RemotingError
from aiorocketmq.remoting.services import TaskSet

from ..sim import ManualClock

FRESH_S = 2.0


class Cluster:
    """Answers with how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.problem: str | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def answer(self) -> int:
        self.asked += 1
        await self.answers.wait()
        if self.problem is not None:
            raise RemotingError(self.problem)
        return self.asked


def run(test: Callable[[Cluster, Cached[int], ManualClock], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        cluster, clock, tasks = Cluster(), ManualClock(), TaskSet("test")
        await test(cluster, Cached(cluster.answer, FRESH_S, clock, tasks), clock)
        await tasks.close()

    asyncio.run(within())


def test_asked_once_for_all_who_look() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        found = await asyncio.gather(*(cached.get() for _ in range(50)))
        assert {each.value for each in found} == {1}
        assert (await cached.get()).value == 1
        assert cluster.asked == 1

    run(test)


def test_what_is_old_is_shown_while_a_new_one_comes() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        await cached.get()
        clock.advance(FRESH_S)
        cluster.answers.clear()
        assert (await cached.get()).value == 1
        await asyncio.sleep(0)
        cluster.answers.set()
        while cluster.asked < 2 or (await cached.get()).value == 1:
            await asyncio.sleep(0)
        assert (await cached.get()).value == 2

    run(test)


def test_what_is_too_old_is_waited_for() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        await cached.get()
        clock.advance(FRESH_S * (TOO_OLD + 1))
        assert (await cached.get()).value == 2

    run(test)


def test_nobody_looks_nothing_is_asked() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        await cached.get()
        clock.advance(1_000_000)
        for _ in range(10):
            await asyncio.sleep(0)
        assert cluster.asked == 1

    run(test)


def test_a_cluster_that_fails_keeps_what_was_there() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        await cached.get()
        cluster.problem = "gone"
        clock.advance(FRESH_S * (TOO_OLD + 1))
        found = await cached.get()
        assert (found.value, found.problem) == (1, "gone")
        cluster.problem = None
        clock.advance(FRESH_S * (TOO_OLD + 1))
        found = await cached.get()
        assert (found.value, found.problem) == (3, None)

    run(test)


def test_a_cluster_that_never_answered() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        cluster.problem = "gone"
        for _ in range(2):
            with pytest.raises(RemotingError, match="gone"):
                await cached.get()
        assert cluster.asked == 1  # not once for each who looks

    run(test)


def test_a_page_that_does_not_wait() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        cluster.answers.clear()
        with pytest.raises(RemotingError, match="not answered yet"):
            await cached.get(wait_s=0)
        cluster.answers.set()
        assert (await cached.get()).value == 1

    run(test)


def test_who_never_waits_gets_it_later() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        assert cached.now() is None
        assert cached.now() is None
        while (found := cached.now()) is None:
            await asyncio.sleep(0)
        assert (found.value, cluster.asked) == (1, 1)

    run(test)


def test_what_was_asked_before_a_change_is_nobodys_answer_after_it() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        cluster.answers.clear()
        before = asyncio.create_task(cached.get())
        while not cluster.asked:
            await asyncio.sleep(0)
        cached.forget()
        after = asyncio.create_task(cached.get())
        while cluster.asked < 2:
            await asyncio.sleep(0)
        cluster.answers.set()
        await asyncio.gather(before, after)
        assert (await cached.get()).at_ms == (await after).at_ms
        assert cluster.asked == 2

    run(test)


def test_who_waits_gets_an_answer_that_is_forgotten_at_once() -> None:
    async def test(cluster: Cluster, cached: Cached[int], clock: ManualClock) -> None:
        cluster.answers.clear()
        looks = asyncio.create_task(cached.get())
        while not cluster.asked:
            await asyncio.sleep(0)
        assert cached._loading is not None
        cached._loading.add_done_callback(lambda _: cached.forget())
        cluster.answers.set()
        assert (await looks).value == 1
        assert (await cached.get()).value == 2

    run(test)


def test_how_old_it_may_be_is_asked_each_time() -> None:
    """What there are many of is asked for less often, and that they are many is known later."""

    async def within() -> None:
        cluster, clock, tasks, fresh_s = Cluster(), ManualClock(), TaskSet("test"), FRESH_S
        cached = Cached(cluster.answer, lambda: fresh_s, clock, tasks)
        await cached.get()
        fresh_s = 10 * FRESH_S
        clock.advance(FRESH_S)
        await cached.get()
        await asyncio.sleep(0)
        assert cluster.asked == 1
        await tasks.close()

    asyncio.run(within())


def test_only_so_many_names_are_kept() -> None:
    async def within() -> None:
        async def load(name: int) -> int:
            return name

        tasks = TaskSet("test")
        cached = CachedByKey(load, FRESH_S, ManualClock(), tasks)
        first, second = cached.of(0), cached.of(1)
        for name in range(2, MOST_KEYS):
            cached.of(name)
        assert cached.of(0) is first
        assert (await cached.of(MOST_KEYS).get()).value == MOST_KEYS
        assert cached.of(0) is first
        assert cached.of(1) is not second
        await tasks.close()

    asyncio.run(within())
