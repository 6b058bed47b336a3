"""Light queues through a broker: sent with other topics, pulled without a topic, a group or a file
of their own."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from aiorocketmq.broker.assembly.tables import Tables
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.state.consumer_offsets import OFFSETS_FILE
from aiorocketmq.broker.state.lmq import LIGHT_OFFSETS_FILE, LightConsumerOffsets
from aiorocketmq.daemon import persist
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import LmqConsumerOffsetTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import StoreFileError
from tests.stored import decode_messages

from ...sim import ManualClock
from ..sim_broker import SimClient, sim_broker, store_config

LIGHT, GROUP = "%LMQ%inbox", "%LMQ%reader"


def config_of(folder: Path, *, light: bool = True) -> MessageStoreConfig:
    return store_config(folder, enable_lmq=light, enable_multi_dispatch=light)


async def pull(client: SimClient, offset: int = 0, *, wait_ms: int = 0) -> Response:
    header = PullMessageRequest(
        consumer_group=GROUP, topic=LIGHT, queue_id=0, queue_offset=offset, max_msg_nums=32,
        commit_offset=0,
        sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if wait_ms else 0),
        suspend_timeout_millis=wait_ms,
        subscription="*", sub_version=0,
    )  # fmt: skip
    return await client.ask(RequestCode.PULL_MESSAGE, header)


def test_a_light_queue_is_pulled_without_topic_and_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            sim_broker(
                tmp_path, store=config_of(tmp_path), auto_create_subscription_group=False
            ) as sim,
        ):
            client = sim.connect()
            waiting = asyncio.create_task(pull(client, wait_ms=60_000))
            await client.send("T", b"hello", properties=f"INNER_MULTI_DISPATCH\x01{LIGHT}")
            answer = (await waiting).check()
            (message,) = decode_messages(answer.body, "b")
            assert (message.topic, message.body) == ("T", b"hello")
            assert (await pull(client, 1)).code == 19
            assert LIGHT not in sim.broker.state.topics
            assert GROUP not in sim.broker.state.groups
            assert sim.broker.state.topics.get("%LMQ%a b") is None

    asyncio.run(main())


def test_without_the_switch_such_names_are_like_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            sim_broker(tmp_path, store=config_of(tmp_path, light=False)) as sim,
        ):
            client = sim.connect()
            await client.send("T", b"hello", properties=f"INNER_MULTI_DISPATCH\x01{LIGHT}")
            assert (await pull(client)).code == 17

    asyncio.run(main())


def test_offsets_of_light_groups_have_a_table_of_their_own(tmp_path: Path) -> None:
    async def commit(client: SimClient, group: str, topic: str, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=0, commit_offset=offset
        )
        (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).check()

    async def main() -> None:
        async with asyncio.timeout(30), sim_broker(tmp_path, store=config_of(tmp_path)) as sim:
            client = sim.connect()
            for number in range(4):
                await client.send(
                    "T", b"%d" % number, properties=f"INNER_MULTI_DISPATCH\x01{LIGHT}"
                )
            await commit(client, GROUP, LIGHT, 3)
            await commit(client, "g", "T", 1)
            expected = {"lmqOffsetTable": {f"{LIGHT}@{GROUP}": 3}, "offsetTable": {"T@g": {"0": 1}}}
            answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert json.loads(answer.check().body.replace(b"{0:", b'{"0":')) == expected
            sim.broker.tables.offsets_file.changed()
            await sim.broker.tables.offsets_file.saved()
        assert not (tmp_path / "config" / "consumerOffset.json").exists()
        text = (tmp_path / "config" / "lmqConsumerOffset.json").read_text()
        assert (
            json.loads(
                text.replace("{0:", '{"0":').replace("\n0:", '\n"0":').replace("\t0:", '\t"0":')
            )
            == expected
        )
        async with asyncio.timeout(30), sim_broker(tmp_path, store=config_of(tmp_path)) as sim:
            header = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=LIGHT, queue_id=0)
            answer = await sim.connect().ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
            assert answer.check().header.offset == 3
            assert sim.broker.state.offsets.get("g", "T", 0) == 1

    asyncio.run(main())


def test_the_offsets_from_before_the_switch_are_kept(tmp_path: Path) -> None:
    async def main() -> None:
        for light in (False, True):
            async with (
                asyncio.timeout(30),
                sim_broker(tmp_path, store=config_of(tmp_path, light=light)) as sim,
            ):
                if light:
                    assert sim.broker.state.offsets.get("g", "T", 0) == 1
                else:
                    await sim.connect().send("T", b"x")
                    sim.broker.state.offsets.commit("g", "T", 0, 1)
                    sim.broker.tables.offsets_file.changed()
                    await sim.broker.tables.offsets_file.saved()

    asyncio.run(main())


def test_each_switch_goes_on_with_the_offsets_of_the_last_run(tmp_path: Path) -> None:
    """Also the second one in the same direction, though there are two files by then; what a light
    group has consumed only one of them knows."""

    async def main() -> None:
        for run, light in enumerate((False, True, False, True, False), 1):
            async with (
                asyncio.timeout(30),
                sim_broker(tmp_path, store=config_of(tmp_path, light=light)) as sim,
            ):
                offsets, file = sim.broker.state.offsets, sim.broker.tables.offsets_file
                if run == 1:
                    for _ in range(5):
                        await sim.connect().send("T", b"x")
                else:
                    assert offsets.get("g", "T", 0) == run - 1
                if light:
                    assert offsets.get(GROUP, LIGHT, 0) == (-1 if run == 2 else 7)
                    offsets.commit(GROUP, LIGHT, 0, 7)
                offsets.commit("g", "T", 0, run)
                file.changed()
                await file.saved()
            written = tmp_path / "config" / (LIGHT_OFFSETS_FILE if light else OFFSETS_FILE)
            os.utime(written, (run, run))

    asyncio.run(main())


def test_a_copy_that_keeps_no_times_goes_on_with_the_same_offsets(tmp_path: Path) -> None:
    """Whichever of two files were written last in it."""

    async def main() -> None:
        for run, light in enumerate((False, True, False, True), 1):
            async with (
                asyncio.timeout(30),
                sim_broker(tmp_path, store=config_of(tmp_path, light=light)) as sim,
            ):
                offsets, file = sim.broker.state.offsets, sim.broker.tables.offsets_file
                if run == 1:
                    for _ in range(5):
                        await sim.connect().send("T", b"x")
                else:
                    assert offsets.get("g", "T", 0) == run - 1
                if light:
                    assert offsets.get(GROUP, LIGHT, 0) == (-1 if run == 2 else 7)
                    offsets.commit(GROUP, LIGHT, 0, 7)
                offsets.commit("g", "T", 0, run)
                file.changed()
                await file.saved()
            for path in (tmp_path / "config").iterdir():
                of_setting = path.name == (LIGHT_OFFSETS_FILE if light else OFFSETS_FILE)
                os.utime(path, (1, 1) if of_setting else (2, 2))

    asyncio.run(main())


def test_a_stop_in_the_middle_of_a_switch_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original was switched: both files are there."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / LIGHT_OFFSETS_FILE).write_text(
        f'{{"offsetTable":{{"T@g":{{0:2}}}},"lmqOffsetTable":{{"{LIGHT}@{GROUP}":7}}}}'
    )
    (folder / OFFSETS_FILE).write_text('{"offsetTable":{"T@g":{0:3}}}')
    os.utime(folder / LIGHT_OFFSETS_FILE, (1, 1))
    settings = BrokerSettings(BrokerConfig(), store=config_of(tmp_path))
    with monkeypatch.context() as stopped:
        stopped.setattr(persist, "_sync_folder", _fails)
        with pytest.raises(StoreFileError):
            Tables(settings, ManualClock())
    for _ in range(2):
        offsets = Tables(settings, ManualClock()).state.offsets
        assert (offsets.get("g", "T", 0), offsets.get(GROUP, LIGHT, 0)) == (3, 7)
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{OFFSETS_FILE}.old", LIGHT_OFFSETS_FILE, f"{LIGHT_OFFSETS_FILE}.bak"
    ]  # fmt: skip


def _fails(_folder: Path) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_some_offsets_of_both_kinds() -> None:
    offsets = LightConsumerOffsets()
    for group, topic in ((GROUP, LIGHT), ("g", "T"), ("h", "T")):
        offsets.commit(group, topic, 0, 7)
    assert at_once(offsets.record_in_slices([f"{LIGHT}@{GROUP}", "T@h"])) == LmqConsumerOffsetTable(
        lmq_offset_table={f"{LIGHT}@{GROUP}": 7}, offset_table={"T@h": {0: 7}}
    )
