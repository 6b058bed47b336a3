"""Who may read what a daemon writes."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from aiorocketmq import Admin, Message, Producer
from aiorocketmq.broker.config.addresses import free_port

from .cluster import (
    _BROKER_READY,
    _NAMESRV_READY,
    HOST,
    Cluster,
    DaemonProcess,
    asynchronous,
    until,
)


def modes_below(folder: Path) -> dict[str, set[str]]:
    """The modes of files and of folders, as octal text, each with one that has it."""
    found: dict[str, set[str]] = {"file": set(), "folder": set()}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found["folder" if stat.S_ISDIR(status.st_mode) else "file"].add(
            f"{stat.S_IMODE(status.st_mode):04o}"
        )
    return found


@pytest.mark.parametrize(
    ("properties", "file", "folder"), [({}, "0600", "0700"), ({"fileMode": "0640"}, "0640", "0750")]
)
@asynchronous
async def test_new_files(
    cluster: Cluster, topic: str, group: str, properties: dict[str, str], file: str, folder: str
) -> None:
    await asyncio.to_thread(
        cluster.start_broker,
        enableConsumeQueueExt="true",
        enableCalcFilterBitMap="true",
        **properties,
    )
    store = cluster.store_of("broker-a")
    async with Producer(group, namesrv=cluster.namesrv) as producer:
        await producer.send(Message(topic, b"x", keys=["k"]))
    while_it_runs = modes_below(store)
    await asyncio.to_thread(cluster.stop_broker, "broker-a")
    names = {path.name for path in store.rglob("*")}
    assert {"commitlog", "consumequeue", "index", "checkpoint", "lock", "topics.json"} <= names
    assert while_it_runs == modes_below(store) == {"file": {file}, "folder": {folder}}


@asynchronous
async def test_requests_25_and_318_keep_the_modes_of_their_files(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    for name, mode in (("broker.conf", 0o600), ("namesrv.conf", 0o640)):
        (folder / name).write_text("tls.server.keyPassword=secret\n")
        (folder / name).chmod(mode)
        backup = folder / f"{name}.bak"
        backup.write_text("an older one")
        backup.chmod(0o644)
    daemons = [
        DaemonProcess(
            "aiorocketmq.namesrv", _NAMESRV_READY, tmp_path / "n", "--listenPort=0",
            f"--bindAddress={HOST}",
            f"-c{folder}/namesrv.conf",
        ),
        DaemonProcess(
            "aiorocketmq.broker", _BROKER_READY, tmp_path / "b", f"--bindAddress={HOST}",
            f"--listenPort={free_port(HOST)}",
            f"--storePathRootDir={tmp_path}/store", f"-c{folder}/broker.conf",
        ),
    ]  # fmt: skip
    try:
        async with Admin(namesrv=daemons[0].address) as admin:
            for value in ("true", "false"):
                await admin.update_name_server_config(
                    daemons[0].address, {"orderMessageEnable": value}
                )
                await admin.update_broker_config(daemons[1].address, {"traceOn": value})
            await until(lambda: (folder / "broker.conf.bak").exists(), "there is a backup")
    finally:
        for daemon in daemons:
            daemon.end()
    modes = {path.name: f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in folder.iterdir()}
    assert modes == {
        "broker.conf": "0600", "broker.conf.bak": "0600", "namesrv.conf": "0640",
        "namesrv.conf.bak": "0640",
    }  # fmt: skip
    assert "secret" in (folder / "broker.conf").read_text()
