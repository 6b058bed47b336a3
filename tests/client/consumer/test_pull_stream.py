"""What a pull consumer may commit of a queue: only what was handed out before the last one was
asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiorocketmq.client.consumer.pull_stream import PullStream, SharedRoom
from aiorocketmq.client.consumer.pulling import PullRequest, PullSettings

from ...sim import ManualClock
from .test_owned_queue import QUEUE, SUBSCRIPTION, World, pulled


def play(scene: Callable[[PullStream], None]) -> None:
    async def main() -> None:
        world = World()
        settings = PullSettings(32, 1.0, 0, commits_on_pull=False)
        scene(
            PullStream(
                PullRequest(world.member, QUEUE, SUBSCRIPTION, settings, 5),
                announce=lambda _stream: None,
                shared=SharedRoom(4, settings.batch_size, ManualClock()),
                max_messages=2,
                max_bytes=1 << 20,
            )
        )

    asyncio.run(main())


def test_messages_of_other_tags_are_passed_when_nothing_is_under_way() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(following=50))
        assert (stream.delivered, stream.done) == (50, 50)

    play(scene)


def test_messages_of_other_tags_do_not_finish_what_was_handed_out() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(5, following=6))
        assert stream.pop() is not None
        stream.put(pulled(following=50))
        assert (stream.delivered, stream.done) == (50, 5)

    play(scene)


def test_what_waits_in_the_buffer_is_not_passed() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(5, 6, following=7))
        stream.put(pulled(following=50))
        assert (stream.delivered, stream.done) == (5, 5)
        assert stream.pop() is not None
        assert stream.delivered == 6

    play(scene)


def test_taking_some_and_taking_all() -> None:
    def scene(stream: PullStream) -> None:
        assert stream.take(5) == []
        stream.put(pulled(5, 6, 9, following=10))
        assert [message.queue_offset for message in stream.take(2)] == [5, 6]
        assert (stream.delivered, stream.done, len(stream)) == (7, 5, 1)
        stream.put(pulled(10, following=11))
        assert [message.queue_offset for message in stream.take(2)] == [9, 10]
        assert (stream.delivered, len(stream), stream._size_bytes) == (11, 0, 0)

    play(scene)


def test_what_nobody_was_given_is_handed_out_again_and_not_done_before() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(5, 6, 9, following=10))
        taken = stream.take(2)
        stream.take_back(taken)
        assert (stream.delivered, stream.done, len(stream)) == (5, 5, 3)
        assert stream._size_bytes == sum(len(message.stored_body) for message in stream._buffer)
        assert not stream._room.is_set()
        assert [message.queue_offset for message in stream.take(3)] == [5, 6, 9]
        assert stream.delivered == 10

    play(scene)


def test_of_a_queue_that_was_moved_meanwhile_nothing_is_taken_back() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(5, 6, following=7))
        taken = stream.take(2)
        stream.restart(20)
        stream.take_back(taken)
        assert (stream.delivered, len(stream)) == (20, 0)

    play(scene)


def test_messages_of_other_tags_are_no_reason_not_to_take_back() -> None:
    def scene(stream: PullStream) -> None:
        stream.put(pulled(5, 6, following=7))
        taken = stream.take(2)
        stream.put(pulled(following=50))
        stream.take_back(taken)
        assert (stream.delivered, stream.take(2)) == (5, taken)

    play(scene)
