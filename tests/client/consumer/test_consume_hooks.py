"""Hooks around the handler, filters, and the figures that an administrator sees (client.md §4.12,
§7.4)."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.consumer.consume_hooks import ConsumeContext, ConsumeHooks, filtered
from aiorocketmq.client.consumer.consume_stats import ConsumeStats
from aiorocketmq.client.errors import RetryLater, SuspendQueue
from aiorocketmq.client.handlers import failure_of
from aiorocketmq.client.producer.trace_records import ConsumeOutcome
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ...sim import ManualClock, told_of
from ..messages import stored


class Noting:
    def __init__(self) -> None:
        self.seen: list[tuple[str, ConsumeOutcome | None, float]] = []

    def before_consume(self, context: ConsumeContext) -> None:
        self.seen.append(("before", context.outcome, context.seconds))

    def after_consume(self, context: ConsumeContext) -> None:
        self.seen.append(("after", context.outcome, context.seconds))


class Raising:
    def before_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError("before")

    def after_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError("after")


@pytest.mark.parametrize(
    ("error", "seconds", "outcome"),
    [
        (None, 1.0, ConsumeOutcome.SUCCESS),
        (None, 900.0, ConsumeOutcome.TIME_OUT),
        (ValueError("no"), 900.0, ConsumeOutcome.EXCEPTION),
        (RetryLater(3), 1.0, ConsumeOutcome.FAILED),
        (SuspendQueue(), 1.0, ConsumeOutcome.FAILED),
    ],
)
def test_hooks_see_every_call_and_change_nothing(
    error: BaseException | None, seconds: float, outcome: ConsumeOutcome
) -> None:
    async def main() -> None:
        clock, noting = ManualClock(), Noting()
        hooks = ConsumeHooks("g", [Raising(), noting], None, clock, 900.0)

        async def call(_messages: list[MessageExt]) -> None:
            clock.advance(seconds)
            if error is not None:
                raise error

        assert hooks
        looked_at = hooks.around(call, lambda: False)
        failure = await failure_of(looked_at, [stored(0)], "g", told_of(), lambda: False)
        assert failure is error
        assert noting.seen == [("before", None, 0.0), ("after", outcome, seconds)]

    asyncio.run(main())


def test_filters_leave_what_they_want_and_one_that_fails_leaves_everything() -> None:
    def fails(_messages: list[MessageExt]) -> list[MessageExt]:
        raise RuntimeError("no")

    def forgets_to_return(messages: list[MessageExt]) -> list[MessageExt]:
        messages.clear()
        return None  # type: ignore[return-value]

    all_of_them = [stored(number) for number in range(6)]
    assert filtered(all_of_them, [forgets_to_return]) == all_of_them
    assert len(all_of_them) == 6
    kept = filtered(
        all_of_them,
        [lambda ms: [m for m in ms if m.queue_offset % 2 == 0], fails, lambda ms: ms[1:]],
    )
    assert [message.queue_offset for message in kept] == [2, 4]


def test_rates_are_of_the_last_minute() -> None:
    stats = ConsumeStats()
    topic = stats.of("T")
    for second in range(0, 200, 10):
        topic.pulls += second > 0
        topic.pulled, topic.pull_seconds = 32 * topic.pulls, 0.05 * topic.pulls
        if second <= 100:
            topic.handled(50, 0.2, None)
            topic.handled(10, 0.1, ValueError("no"))
        stats.note(second)
        if second == 100:
            status = stats.status()["T"]
            assert (status.consume_ok_tps, status.consume_failed_tps) == (5.0, 1.0)
            assert (status.pull_tps, status.pull_rt, status.consume_rt) == (3.2, 50.0, 150.0)
    status = stats.status()["T"]
    assert (status.consume_ok_tps, status.consume_failed_tps, status.pull_tps) == (0.0, 0.0, 3.2)
    assert (status.consume_rt, status.consume_failed_msgs) == (
        150.0,
        110,
    )  # of the hour: nothing happened in the minute
