"""A cluster for all commands, and ``mqadmin`` in this process."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from aiorocketmq.testing import LocalCluster
from aiorocketmq.tools.mqadmin.__main__ import run
from aiorocketmq.tools.mqstore.__main__ import run as run_mqstore

from ..kept_logging import logging_as_before
from . import mqstore_world


class Printed(NamedTuple):
    """What one run of ``mqadmin`` left behind."""

    code: int
    out: str
    err: str

    @property
    def problem(self) -> str:
        """The one line on standard error of a command that failed and printed nothing else."""
        assert self.out == "", self
        assert self.err.count("\n") == 1, self
        return self.err.removesuffix("\n")


MqAdmin = Callable[..., Printed]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Named as in the golden material."""
    with LocalCluster(properties={"brokerName": "broker-g"}) as cluster:
        yield cluster


@pytest.fixture
def mqadmin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> MqAdmin:
    """Run a command line; nothing of the environment counts, and what is dead is not waited for."""
    for name in ("NAMESRV_ADDR", "ROCKETMQ_HOME", "MQADMIN_COMPAT_EXIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MQADMIN_WAIT", "0")

    def call(*arguments: str) -> Printed:
        capsys.readouterr()
        with logging_as_before():
            code = run(arguments)
        return Printed(code, *capsys.readouterr())

    return call


@pytest.fixture
def admin(mqadmin: MqAdmin, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> MqAdmin:
    """The same, with the cluster's name server in NAMESRV_ADDR."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv_address)
    return mqadmin


@pytest.fixture
def mqstore(capsys: pytest.CaptureFixture[str]) -> mqstore_world.MqStore:
    """Run a command line of ``mqstore``."""

    def call(*arguments: object) -> mqstore_world.Printed:
        code = run_mqstore([str(argument) for argument in arguments])
        return mqstore_world.Printed(code, *capsys.readouterr())

    return call
