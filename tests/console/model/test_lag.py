"""The lag of a group over time."""

from __future__ import annotations

import json

from aiorocketmq.console.model.lag import MOST_LINES, MOST_POINTS, MOST_SERIES, LagHistory
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from .test_groups import Q0, Q1, stats


def test_all_points_as_columns() -> None:
    history = LagHistory()
    history.add(stats((Q0, 10, 4)), 1_000)
    history.add(stats((Q1, 5, 5), (Q0, 10, 12)), 4_500)
    assert json.loads(history.columns()) == {
        "names": ["Orders a 0", "Orders a 1"],
        "at": [1.0, 4.5],
        "total": [6, 0],
        "lines": [[6, 0], [None, 0]],
    }
    assert json.loads(history.newest()) == {
        "at": 4.5, "total": 0, "series": {"Orders a 0": 0, "Orders a 1": 0},
    }  # fmt: skip


def test_queues_furthest_behind_have_lines() -> None:
    history = LagHistory()
    queues = [MessageQueue("T", "a", number) for number in range(20)]
    history.add(stats(*((queue, queue.queue_id, 0) for queue in queues)), 1)
    assert history.names == [f"T a {number}" for number in range(20 - MOST_SERIES, 20)]
    assert json.loads(history.newest())["total"] == sum(range(20))
    for at, queue in enumerate(queues, 2):
        history.add(stats((queue, 9, 0)), at)
    assert len(history.names) == MOST_LINES
    assert history.names[0] == "T a 19", "the newest first"


def test_old_points_go() -> None:
    history = LagHistory()
    for at in range(MOST_POINTS + 5):
        history.add(stats((Q0, at, 0)), at * 1000)
    columns = json.loads(history.columns())
    assert (len(columns["at"]), columns["at"][0]) == (MOST_POINTS, 5)
