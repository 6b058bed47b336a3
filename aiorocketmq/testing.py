"""pytest plugin (entry point ``pytest11``): a cluster for the tests of any project, with or without
asyncio.

::

    def test_orders(rocketmq_cluster, rocketmq_topic):
        with sync.Producer("orders", namesrv=rocketmq_cluster.namesrv_address) as producer:
            producer.send(Message(rocketmq_topic, b"..."))

One cluster serves the whole session (one per worker of pytest-xdist), each test takes a topic of
its own. Importing this costs nothing: what a cluster needs is imported when the first test asks for
it. ``LocalCluster`` can be imported from here too; without pytest, import it from
``aiorocketmq.local_cluster``.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .local_cluster import LocalCluster

__all__ = ["LocalCluster", "rocketmq_cluster", "rocketmq_topic"]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[LocalCluster]:
    """A name server and a broker, in a thread: ``namesrv_address``, ``broker_address``,
    ``data_dir``."""
    from .local_cluster import LocalCluster

    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def rocketmq_topic(rocketmq_cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """The name of a topic that nobody else uses. It exists: a consumer may start before the first
    message is sent."""
    topic = fresh_topic_name(request.node.name)
    asyncio.run_coroutine_threadsafe(
        rocketmq_cluster.create_topic(topic), rocketmq_cluster.loop
    ).result(timeout=30)
    return topic


def fresh_topic_name(test_name: str) -> str:
    """A topic name that tells which test it belongs to."""
    return f"{re.sub('[^a-zA-Z0-9_-]+', '_', test_name)[:80].strip('_')}-{next(_numbers)}"


def __getattr__(name: str) -> Any:
    if name == "LocalCluster":
        from .local_cluster import LocalCluster

        return LocalCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
