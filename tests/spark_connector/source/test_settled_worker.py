"""What a worker process of Spark does about the garbage collection after each of its tasks."""

from __future__ import annotations

import gc

import pytest

from aiorocketmq.spark_connector.source import fetch


def test_what_is_there_before_and_after_the_first_task_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first task imports what only tasks need; what later ones make goes with them."""
    tasks: list[str] = []
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(tasks[-1]))
    monkeypatch.setattr(fetch, "_freezes_left", 2)
    for task in ("first", "second", "third", "fourth"):
        tasks.append(task)
        fetch.settle_worker()
    assert frozen == ["first", "second"]
