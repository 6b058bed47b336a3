"""The public names: all there, imported late; the blocking clients take what the asyncio clients
take."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Unpack, get_type_hints

import pytest

import aiorocketmq
from aiorocketmq import sync
from aiorocketmq.client.admin.core import AdminOptions, AdminSettings
from aiorocketmq.client.consumer.options import (
    PullConsumerOptions,
    PullConsumerSettings,
    PushConsumerOptions,
    PushConsumerSettings,
)
from aiorocketmq.client.options import ClientOptions, ClientSettings, Settings
from aiorocketmq.client.producer.options import ProducerOptions, ProducerSettings
from aiorocketmq.client.producer.transaction import (
    Transaction,
    TransactionProducerOptions,
    TransactionSettings,
)


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


CLIENTS: list[tuple[type, type, type, type[Settings]]] = [
    (sync.Producer, aiorocketmq.Producer, ProducerOptions, ProducerSettings),
    (sync.PushConsumer, aiorocketmq.PushConsumer, PushConsumerOptions, PushConsumerSettings),
    (sync.PullConsumer, aiorocketmq.PullConsumer, PullConsumerOptions, PullConsumerSettings),
    (sync.Admin, aiorocketmq.Admin, AdminOptions, AdminSettings),
]


@pytest.mark.parametrize(("blocking", "asynchronous", "options", "settings"), CLIENTS)
def test_options_and_settings_do_not_drift(
    blocking: type, asynchronous: type, options: type, settings: type[Settings]
) -> None:
    for client in (blocking, asynchronous):
        assert get_type_hints(client.__init__)["options"] == Unpack[options]  # type: ignore[misc]
    assert get_type_hints(options) == {
        **get_type_hints(ClientOptions),
        **get_type_hints(settings),
    }


def test_the_settings_of_every_client_do_not_drift() -> None:
    assert get_type_hints(ClientOptions) == get_type_hints(ClientSettings)


def test_help_shows_options_with_their_defaults() -> None:
    shown = inspect.signature(aiorocketmq.PushConsumer)
    assert shown.parameters["concurrency"].default == 20
    assert shown.parameters["concurrency"].annotation == "int"
    assert shown.parameters["start_from"].default is aiorocketmq.StartFrom.LAST
    shown = inspect.signature(aiorocketmq.TransactionProducer)
    assert shown.parameters["checker"].default is inspect.Parameter.empty
    assert list(shown.parameters)[-1] == "options"


@pytest.mark.parametrize(("blocking", "asynchronous", "_options", "_settings"), CLIENTS)
def test_the_blocking_clients_do_not_drift(
    blocking: type, asynchronous: type, _options: type, _settings: type
) -> None:
    missing = {
        name
        for name, member in vars(asynchronous).items()
        if not name.startswith("_") and callable(member) and not hasattr(blocking, name)
    }
    # What an instance or a program asks of a consumer is no concern of its user.
    assert missing <= {
        "take", "give_up", "consumer_data", "wake_rebalance", "reset_offsets", "running_info",
        "offsets_of",
            "consume_directly", "stalled", "send_again", "hold", "mark_done", "take_back",
    }  # fmt: skip


def test_the_blocking_transaction_producer_does_not_drift() -> None:
    for client in (sync.TransactionProducer, aiorocketmq.TransactionProducer):
        assert get_type_hints(client.__init__)["options"] == Unpack[TransactionProducerOptions]
    assert get_type_hints(TransactionProducerOptions) == {
        **get_type_hints(ProducerOptions),
        **get_type_hints(TransactionSettings),
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
