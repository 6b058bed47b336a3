"""Work reaches waiting workers, in order, also when one of them is cancelled at the wrong
moment."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.consumer.backlog import Backlog


def test_in_order_and_to_the_end() -> None:
    async def scenario() -> None:
        backlog: Backlog[int] = Backlog()
        done: list[int] = []

        async def work() -> None:
            while (item := await backlog.take()) is not None:
                done.append(item)

        workers = [asyncio.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0)
        backlog.extend([1, 2])
        backlog.extend([3])
        while len(done) < 3:
            await asyncio.sleep(0)
        assert done == [1, 2, 3]
        backlog.extend([4])
        backlog.close()
        await asyncio.wait(workers)
        assert done == [1, 2, 3]  # what waits is dropped: it will be pulled again
        assert await backlog.take() is None

    asyncio.run(scenario())


def test_a_cancelled_worker_passes_its_call_on() -> None:
    async def scenario() -> None:
        backlog: Backlog[str] = Backlog()
        first = asyncio.create_task(backlog.take())
        second = asyncio.create_task(backlog.take())
        await asyncio.sleep(0)
        backlog.extend(["work"])  # wakes the first ...
        first.cancel()  # ... which goes before it runs
        async with asyncio.timeout(5):
            assert await second == "work"
        assert first.cancelled()

    asyncio.run(scenario())


def test_work_that_waits_is_shared_by_all_and_work_that_does_not_is_done_by_one() -> None:
    async def scenario() -> None:
        backlog: Backlog[int] = Backlog()
        busy: set[int] = set()
        gate = asyncio.Event()

        async def work(number: int) -> None:
            while (backlog.take_now() or await backlog.take()) is not None:
                busy.add(number)
                if not gate.is_set():
                    await gate.wait()

        workers = [asyncio.create_task(work(number)) for number in range(5)]
        await asyncio.sleep(0)
        backlog.extend(range(1, 101))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(busy) == 5
        gate.set()
        while len(backlog):
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        busy.clear()
        backlog.extend(range(1, 101))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(backlog), len(busy)) == (0, 1)
        backlog.close()
        await asyncio.wait(workers)

    asyncio.run(scenario())


@given(st.lists(st.sampled_from(["extend", "step", "cancel", "start"]), max_size=60), st.randoms())
def test_no_work_lies_around_while_a_worker_sleeps(steps: list[str], rng: random.Random) -> None:
    async def scenario() -> None:
        backlog: Backlog[int] = Backlog()
        done: list[int] = []
        given_out = 0
        workers: list[asyncio.Task[None]] = []

        async def work() -> None:
            while (item := backlog.take_now() or await backlog.take()) is not None:
                done.append(item)
                if item % 2:
                    await asyncio.sleep(0)

        for step in steps:
            if step == "extend":
                count = rng.randrange(1, 5)
                backlog.extend(range(given_out + 1, given_out + count + 1))
                given_out += count
            elif step == "start":
                workers.append(asyncio.create_task(work()))
            elif step == "cancel" and workers:
                workers.pop(rng.randrange(len(workers))).cancel()
            else:
                await asyncio.sleep(0)
        workers.append(asyncio.create_task(work()))
        for _ in range(4 * given_out + 20):
            await asyncio.sleep(0)
        assert sorted(done) == list(range(1, given_out + 1))
        backlog.close()
        await asyncio.wait(workers)

    asyncio.run(scenario())
