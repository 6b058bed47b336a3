"""A pool of threads that no process waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiorocketmq.client.errors import ClientStateError
from aiorocketmq.client.user_threads import UserThreads


def test_results_and_errors_come_back() -> None:
    async def main() -> None:
        pool = UserThreads(2, "pool")
        assert await asyncio.gather(*(pool.call(str, number) for number in range(100))) == [
            str(n) for n in range(100)
        ]
        with pytest.raises(ValueError, match="invalid literal"):
            await pool.call(int, "no number")
        pool.close()
        with pytest.raises(ClientStateError, match="pool is stopped"):
            pool.call(str, 1)

    asyncio.run(main())


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
def test_what_ends_a_thread_does_not_end_the_loop(kind: type[BaseException]) -> None:
    def ends(_argument: object) -> None:
        raise kind

    async def main() -> None:
        pool = UserThreads(1, "pool")
        with pytest.raises(RuntimeError, match=f"the function raised {kind.__name__}") as caught:
            await pool.call(ends, None)
        assert isinstance(caught.value.__cause__, kind)
        pool.close()

    asyncio.run(main())


def test_an_error_that_no_future_takes_comes_back_as_one_that_it_takes() -> None:
    """``next`` of nothing left: as of coroutines, or whoever waits would wait for ever."""

    async def main() -> None:
        pool = UserThreads(1, "pool")
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="StopIteration") as caught:
                await pool.call(lambda numbers: next(numbers), iter(()))
        assert isinstance(caught.value.__cause__, StopIteration)
        pool.close()

    asyncio.run(main())


def test_so_many_run_at_a_time() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def work(number: int) -> int:
        begun.release()
        assert go_on.wait(60)
        return number

    async def main() -> None:
        pool = UserThreads(3, "pool")
        calls = [pool.call(work, number) for number in range(5)]
        for _ in range(3):
            await asyncio.to_thread(begun.acquire)
        assert not begun.acquire(blocking=False)
        go_on.set()
        assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]
        pool.close()

    asyncio.run(main())


class Refusals:
    """So many threads cannot be started, as where the processes of a user are limited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        start = threading.Thread.start

        def refused(thread: threading.Thread) -> None:
            if self.left and thread.name.startswith("pool"):
                self.left -= 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refused)


def test_where_no_thread_can_be_started_nothing_is_called_until_one_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was refused makes something else of it: it must not be called later as well."""
    refusals, called = Refusals(monkeypatch), list[int]()

    async def main() -> None:
        pool = UserThreads(2, "pool")
        refusals.left = 3
        for number in range(3):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                pool.call(called.append, number)
        async with asyncio.timeout(10):
            await pool.call(called.append, 3)
        pool.close()

    asyncio.run(main())
    assert called == [3]


def test_threads_that_run_do_the_work_of_those_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And there are as many as may be as soon as they can."""
    refusals, begun, go_on = Refusals(monkeypatch), threading.Semaphore(0), threading.Event()

    def work(number: int) -> int:
        begun.release()
        assert go_on.wait(60)
        return number

    async def main() -> None:
        pool = UserThreads(3, "pool")
        async with asyncio.timeout(10):
            await pool.call(str, 0)
            refusals.left = 3
            assert await asyncio.gather(*(pool.call(str, n) for n in range(4))) == list("0123")
            assert refusals.left == 0
            calls = [pool.call(work, number) for number in range(3)]
            for _ in range(3):
                await asyncio.to_thread(begun.acquire)
            go_on.set()
            assert await asyncio.gather(*calls) == [0, 1, 2]
        pool.close()

    asyncio.run(main())


def test_what_waits_when_it_is_closed_is_not_called() -> None:
    begun, go_on, called = threading.Event(), threading.Event(), list[int]()

    def work(number: int) -> None:
        called.append(number)
        begun.set()
        assert go_on.wait(60)

    async def main() -> None:
        pool = UserThreads(1, "pool")
        runs, waits, cancelled = (pool.call(work, number) for number in range(3))
        await asyncio.to_thread(begun.wait)
        cancelled.cancel()
        pool.close()
        with pytest.raises(asyncio.CancelledError):
            await waits
        go_on.set()
        await runs

    asyncio.run(main())
    assert called == [0]


def test_its_threads_end_when_it_is_closed_and_are_not_waited_for_before() -> None:
    async def main() -> list[threading.Thread]:
        pool = UserThreads(2, "of this test")
        await pool.call(str, 1)
        await pool.call(str, 2)
        threads = [
            thread for thread in threading.enumerate() if thread.name.startswith("of this test")
        ]
        assert threads
        assert all(thread.daemon for thread in threads)
        pool.close()
        return threads

    for thread in asyncio.run(main()):
        thread.join(60)
        assert not thread.is_alive()
