"""The program that type checkers read uses every public name, and every method of every client."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import aiorocketmq
from aiorocketmq import sync

PROGRAM = ast.parse(Path(__file__).with_name("whole_api.py").read_text(encoding="utf-8"))
USED = {node.attr for node in ast.walk(PROGRAM) if isinstance(node, ast.Attribute)}
NAMED = {node.id for node in ast.walk(PROGRAM) if isinstance(node, ast.Name)}
OF_INSTANCES = {
    "take", "give_up", "consumer_data", "wake_rebalance", "reset_offsets", "running_info",
    "offsets_of", "stalled",
    "send_again",
}  # fmt: skip
"""What an instance asks of its members; no user does."""


def test_every_name_is_used() -> None:
    assert set(aiorocketmq.__all__) <= NAMED | USED


@pytest.mark.parametrize(
    "client",
    [
        aiorocketmq.Producer, aiorocketmq.TransactionProducer, aiorocketmq.Transaction,
        aiorocketmq.PushConsumer,
        aiorocketmq.PullConsumer, aiorocketmq.Admin, sync.Producer, sync.TransactionProducer,
        sync.PushConsumer,
        sync.PullConsumer, sync.Admin,
    ],
)  # fmt: skip
def test_every_method_is_used(client: type) -> None:
    methods = {name for name in dir(client) if not name.startswith("_")}
    assert methods - OF_INSTANCES <= USED
