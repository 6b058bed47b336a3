"""How often a message comes again to its group, and how long it waits before."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.codes import V3_4_9
from aiorocketmq.remoting.protocol.message.retries import (
    retry_delay_level,
    retry_limit_at_broker,
    retry_limit_of_consumer,
)


@pytest.mark.parametrize(("option", "limit"), [(-1, 16), (0, 0), (3, 3)])
def test_what_a_consumers_option_means(option: int, limit: int) -> None:
    assert retry_limit_of_consumer(option) == limit


@pytest.mark.parametrize(
    ("asked", "version", "limit"),
    [(3, V3_4_9, 3), (3, V3_4_9 - 1, 16), (None, V3_4_9, 16), (0, V3_4_9, 0)],
)
def test_a_new_client_may_ask_for_another_limit(
    asked: int | None, version: int, limit: int
) -> None:
    assert retry_limit_at_broker(16, asked, version) == limit


def test_each_attempt_waits_one_level_longer_unless_one_is_asked_for() -> None:
    assert [retry_delay_level(0, times) for times in range(3)] == [3, 4, 5]
    assert retry_delay_level(1, 2) == 1
