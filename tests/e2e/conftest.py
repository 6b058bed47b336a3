"""Clusters for end-to-end tests, and names that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import installed as installations
from .cluster import Cluster
from .spark_session import spark
from .spark_writes import small_batches, with_queues

__all__ = [
    "cluster",
    "group",
    "installed",
    "shared",
    "small_batches",
    "spark",
    "topic",
    "with_queues",
]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> installations.Environment:
    """The package as a user has it: a wheel in an environment of its own."""
    return installations.shared(tmp_path_factory)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests that leave it as it is; each takes topics and groups of its own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_broker()
        yield cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster to break."""
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"T-{uuid.uuid4().hex}"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex}"
