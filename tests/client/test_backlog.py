"""Work reaches waiting workers, in order, also when one of them is cancelled at the wrong moment."""

from __future__ import annotations

import asyncio

from aiorocketmq.client.backlog import Backlog


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
