"""Who uses a client imports what clients are made of, and nothing else: no broker, no store, no
command line."""

import json
import subprocess
import sys

import pytest

ROOMS = {"client", "remoting", "daemon"}
OF_DAEMON = {"backed_file", "event_loop", "local_address", "persist", "stop_signals"}
"""Small things that programs and daemons have in common."""
CLIENTS = [
    "from aiorocketmq import Message, Producer",
    "from aiorocketmq import PushConsumer, Sql",
    "from aiorocketmq import PullConsumer, StartFrom",
    "from aiorocketmq import Admin, TransactionProducer, run",
    "from aiorocketmq.sync import Admin, Producer, PullConsumer, PushConsumer, run",
    "import aiorocketmq.client.openmessaging.access_point",
]
NOT_OURS = {"msgspec"}
"""Of what is installed with the package. (uvloop comes when a loop is made by ``run``.)"""
DEPENDENCIES = {"click", "crcmod", "msgpack", "msgspec", "rich", "uvloop", "yaml"}
OPTIONAL = {
    "lz4", "numpy", "opentelemetry", "pandas", "prometheus_client", "pyarrow", "pyspark",
    "zstandard",
}  # fmt: skip
SLOW = {"email", "http", "importlib.metadata", "multiprocessing", "tomllib", "unittest"}
"""Of the standard library: what takes its time, and nobody needs to send a message."""


def modules_of(program: str) -> set[str]:
    code = f"{program}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("program", CLIENTS)
def test_a_client_imports_client_things_only(program: str) -> None:
    before = modules_of("import asyncio, logging, ssl")
    found = modules_of(program) - before
    ours = {name.split(".")[1:][0] for name in found if name.startswith("aiorocketmq.")}
    face = {"sync", "sync_program", "loop_thread", "direct_sends"} if "sync" in program else set()
    assert ours <= ROOMS | face
    daemon = {name.split(".")[2] for name in found if name.startswith("aiorocketmq.daemon.")}
    assert daemon <= OF_DAEMON
    assert (DEPENDENCIES | OPTIONAL) & {name.partition(".")[0] for name in found} <= NOT_OURS
    assert not SLOW & found


@pytest.mark.parametrize(
    ("program", "without"),
    [
        ("import aiorocketmq", DEPENDENCIES),
        ("import aiorocketmq.broker.daemon", {"yaml", "crcmod", "rich", "msgpack"}),
        ("import aiorocketmq.namesrv.daemon", {"yaml", "crcmod", "rich", "msgpack"}),
        ("import aiorocketmq.tools.mqadmin.__main__", {"yaml", "crcmod", "rich", "msgpack"}),
        ("import aiorocketmq.tools.mqstore.__main__", {"yaml", "crcmod", "rich", "msgpack"}),
        ("import aiorocketmq.store.inspect", {"click", *DEPENDENCIES} - {"msgspec"}),
    ],
)
def test_a_dependency_is_imported_where_it_is_needed(program: str, without: set[str]) -> None:
    found = {name.partition(".")[0] for name in modules_of(program)}
    assert not found & (without | OPTIONAL)


def test_who_asks_for_spans_without_opentelemetry_is_told_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import aiorocketmq.otel"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr.rstrip().endswith(
        "ImportError: aiorocketmq.otel needs OpenTelemetry: "
        f"{sys.executable} -m pip install 'aiorocketmq[otel]'"
    )
