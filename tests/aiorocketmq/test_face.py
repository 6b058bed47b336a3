"""The public names: all there, imported late; the blocking clients take what the asyncio clients
take."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_type_hints

import pytest

import aiorocketmq
from aiorocketmq import sync
from aiorocketmq.client.options import ClientOptions
from aiorocketmq.client.producer.transaction import Transaction


def test_every_public_name_is_there() -> None:
    for name in aiorocketmq.__all__:
        assert getattr(aiorocketmq, name) is not None
    assert set(aiorocketmq.__all__) <= set(dir(aiorocketmq))
    assert len(set(aiorocketmq.__all__)) == len(aiorocketmq.__all__)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = aiorocketmq.no_such_name


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys, aiorocketmq; print([m for m in sys.modules if m.startswith(('aiorocketmq.', "
        "'asyncio'))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("blocking", "asynchronous", "options"),
    [
        (sync.Producer, aiorocketmq.Producer, sync.ProducerOptions),
        (sync.PushConsumer, aiorocketmq.PushConsumer, sync.PushConsumerOptions),
        (sync.PullConsumer, aiorocketmq.PullConsumer, sync.PullConsumerOptions),
        (sync.Admin, aiorocketmq.Admin, sync.AdminOptions),
    ],
)
def test_the_blocking_clients_do_not_drift(
    blocking: type, asynchronous: type, options: type
) -> None:
    taken = get_type_hints(asynchronous.__init__)  # type: ignore[misc]
    parameters = inspect.signature(asynchronous).parameters.values()
    own = {p.name: taken[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert get_type_hints(options) == {**get_type_hints(ClientOptions), **own}
    missing = {
        name
        for name, member in vars(asynchronous).items()
        if not name.startswith("_") and callable(member) and not hasattr(blocking, name)
    }
    # What an instance or a program asks of a consumer is no concern of its user.
    assert missing <= {
        "take", "give_up", "consumer_data", "wake_rebalance", "reset_offsets", "running_info",
        "offsets_of",
            "consume_directly", "stalled", "send_again", "hold", "mark_done",
    }  # fmt: skip


def test_the_blocking_transaction_producer_does_not_drift() -> None:
    taken = get_type_hints(aiorocketmq.TransactionProducer.__init__)
    parameters = inspect.signature(aiorocketmq.TransactionProducer).parameters.values()
    own = {p.name: taken[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert get_type_hints(sync.TransactionProducerOptions) == {
        **get_type_hints(sync.ProducerOptions),
        **own,
    }
    for asynchronous, blocking in (
        (aiorocketmq.TransactionProducer, sync.TransactionProducer),
        (Transaction, sync.Transaction),
    ):
        names = {name for name in vars(asynchronous) if not name.startswith("_")}
        assert names - set(dir(blocking)) <= {
            "begin",
            "end",
            "rollback",
            "leave_unknown",
        }  # the latter are attributes


def test_options_reach_the_client() -> None:
    producer = sync.Producer("g", namesrv="host:1", send_timeout=7.5)
    assert producer._client.send_timeout == 7.5
    with pytest.raises(aiorocketmq.ConfigError, match="send_timeout"):
        sync.Producer("g", namesrv="host:1", send_timeout=0)


def test_a_blocking_client_refuses_to_wait_for_its_own_loop() -> None:
    producer = sync.Producer("g", namesrv="host:1")

    async def on_loop() -> None:
        producer.start()

    with pytest.raises(aiorocketmq.ClientStateError, match="own event loop"):
        producer._loop.run(on_loop())
