"""pytest plugin (entry point ``pytest11``): a cluster for the tests of any project, with or without
asyncio.

::

    def test_orders(rocketmq_cluster, rocketmq_topic):
        with sync.Producer("orders", namesrv=rocketmq_cluster.namesrv_address) as producer:
            producer.send(Message(rocketmq_topic, b"..."))

One cluster serves the whole session (one per worker of pytest-xdist), each test takes a topic of
its own; and one group of brokers, where a test asks for ``rocketmq_group``. Importing this costs
nothing: what a cluster needs is imported when the first test asks for it. ``LocalCluster`` can be
imported from here too; without pytest, import it from ``aiorocketmq.local_cluster``.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

try:
    import pytest
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "aiorocketmq.testing is a plugin of pytest, which is not installed; without it: "
        "from aiorocketmq import LocalCluster",
        name="pytest",
    ) from None

if TYPE_CHECKING:
    from .local_cluster import LocalCluster

__all__ = [
    "LocalCluster",
    "rocketmq_cluster",
    "rocketmq_group",
    "rocketmq_group_topic",
    "rocketmq_topic",
]

_numbers = itertools.count(1)
_PATIENCE_S = 120.0


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
    _on_its_loop(rocketmq_cluster, rocketmq_cluster.create_topic(topic))
    return topic


@pytest.fixture(scope="session")
def _rocketmq_group_of_session() -> Iterator[LocalCluster]:
    from .local_cluster import LocalCluster

    with LocalCluster(raft=3) as cluster:
        yield cluster


@pytest.fixture
def rocketmq_group(_rocketmq_group_of_session: LocalCluster) -> Iterator[LocalCluster]:
    """A name server and a DLedger group of three brokers, each a process: ``leader()``, and
    ``members`` that can be stopped, killed and paused. All run again after the test."""
    yield _rocketmq_group_of_session
    _on_its_loop(_rocketmq_group_of_session, _all_run(_rocketmq_group_of_session))


async def _all_run(group: LocalCluster) -> None:
    for member in group.members:
        await member.resume()
        await member.start()
    await group.leader()


@pytest.fixture
def rocketmq_group_topic(rocketmq_group: LocalCluster, request: pytest.FixtureRequest) -> str:
    """As ``rocketmq_topic``, of the group; all its members know it."""
    topic = fresh_topic_name(request.node.name)
    _on_its_loop(rocketmq_group, rocketmq_group.create_topic(topic))
    return topic


def _on_its_loop(cluster: LocalCluster, coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(coroutine, cluster.loop).result(timeout=_PATIENCE_S)


def fresh_topic_name(test_name: str) -> str:
    """A topic name that tells which test it belongs to."""
    return f"{re.sub('[^a-zA-Z0-9_-]+', '_', test_name)[:80].strip('_')}-{next(_numbers)}"


def __getattr__(name: str) -> Any:
    if name == "LocalCluster":
        from .local_cluster import LocalCluster

        return LocalCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
