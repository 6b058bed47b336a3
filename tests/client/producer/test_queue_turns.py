"""One message at a time in each queue: who has to wait, and who comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq.client.producer.queue_turns import QueueTurns
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

ONE, TWO = MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)


class Scene:
    """Callers by name, and the queues that they have got, in order."""

    def __init__(self) -> None:
        self.usable = [ONE, TWO]
        self.turns = QueueTurns(lambda _: self.usable)
        self.got: list[tuple[str, MessageQueue]] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, *args: Any, **options: Any) -> None:
        async def take() -> None:
            queue = self.turns.take("T", *args) or await self.turns.wait("T", *args, **options)
            self.got.append((name, queue))

        self.tasks[name] = asyncio.ensure_future(take())
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def release(self, queue: MessageQueue) -> None:
        self.turns.release(queue)
        await self.settle()


def play(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await test(Scene())

    asyncio.run(main())


def test_who_names_a_queue_waits_for_it_in_the_order_of_asking() -> None:
    async def test(scene: Scene) -> None:
        for name in "xyz":
            await scene.ask(name, ONE)
        assert scene.got == [("x", ONE)]
        await scene.release(ONE)
        await scene.release(ONE)
        assert scene.got == [("x", ONE), ("y", ONE), ("z", ONE)]
        await scene.release(ONE)
        await scene.ask("later", ONE)
        assert scene.got[-1] == ("later", ONE)

    play(test)


def test_who_does_not_takes_the_first_that_is_free() -> None:
    async def test(scene: Scene) -> None:
        for name in "xyz":
            await scene.ask(name, None)
        assert scene.got == [("x", ONE), ("y", TWO)]
        await scene.release(TWO)
        assert scene.got[-1] == ("z", TWO)

    play(test)


def test_the_older_one_comes_first() -> None:
    async def test(scene: Scene) -> None:
        scene.usable = [ONE]
        await scene.ask("first", None)
        await scene.ask("any", None)
        await scene.ask("bound", ONE)
        await scene.ask("any later", None)
        for _ in range(3):
            await scene.release(ONE)
        assert [name for name, _ in scene.got] == ["first", "any", "bound", "any later"]

    play(test)


def test_who_looks_for_another_queue_comes_before_all() -> None:
    async def test(scene: Scene) -> None:
        await scene.ask("x", ONE)
        await scene.ask("y", TWO)
        await scene.ask("bound", TWO)
        await scene.ask("any", None)
        await scene.ask("again", None, again=True)
        await scene.release(TWO)
        assert scene.got[-1] == ("again", TWO)

    play(test)


def test_brokers_to_avoid_are_left_to_others() -> None:
    async def test(scene: Scene) -> None:
        await scene.ask("x", ONE)
        await scene.ask("y", TWO)
        await scene.ask("avoids", None, {"b"})
        await scene.ask("any", None)
        await scene.release(TWO)
        assert scene.got[-1] == ("any", TWO)
        await scene.release(TWO)
        assert "avoids" not in dict(scene.got)
        await scene.ask("other", None)
        assert scene.got[-1] == ("other", TWO)
        await scene.release(ONE)
        assert scene.got[-1] == ("avoids", ONE)

    play(test)


def test_a_queue_that_can_be_sent_to_again_is_served() -> None:
    async def test(scene: Scene) -> None:
        scene.usable = [ONE]
        await scene.ask("x", None)
        await scene.ask("y", None)
        scene.usable = [ONE, TWO]
        scene.turns.serve("T")
        await scene.settle()
        assert scene.got[-1] == ("y", TWO)

    play(test)


@pytest.mark.parametrize("bound", [ONE, None])
def test_who_is_cancelled_holds_nothing_up(bound: MessageQueue | None) -> None:
    async def test(scene: Scene) -> None:
        scene.usable = [ONE]
        await scene.ask("x", ONE)
        for name in ("cancelled", "late", "z"):
            await scene.ask(name, bound)
        scene.tasks["cancelled"].cancel()
        scene.turns.release(ONE)  # before the task has noticed
        scene.tasks["late"].cancel()  # when it has the queue, but not noticed it
        await scene.settle()
        assert [name for name, _ in scene.got] == ["x", "z"]
        await scene.release(ONE)
        assert not scene.turns._held
        assert not scene.turns._lines

    play(test)
