"""Config tables that are missing, empty or damaged: the content before comes back, and an
administrator is told so."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from aiorocketmq.broker.state.clients import Subscription
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.slices import at_once

from .sim_broker import SimBroker, sim_broker

TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")


async def fill(sim: SimBroker) -> None:
    """Every file is written twice: the backup knows Old and old, the file New and new, too."""
    broker, client = sim.broker, sim.connect()
    for topic, group in (("Old", "old"), ("New", "new")):
        await sim.make_topic(topic)
        await client.send(topic, b"x")
        broker.state.groups.update(SubscriptionGroupConfig(group_name=group))
        broker.state.offsets.commit(group, topic, 0, 1)
        await broker.tables.groups_file.saved()
        await broker.tables.save_offsets()


def damage(file: Path, how: str) -> None:
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {"empty": b"", "blank": b" \n", "zeroed": bytes(100), "cut": file.read_bytes()[:50]}[
                how
            ]
        )


@pytest.mark.parametrize("how", ["missing", "empty", "blank", "zeroed", "cut"])
def test_a_table_from_its_backup_is_told_with_what_differs(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "config"

    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            await fill(sim)
        for name in TABLES:
            damage(config / name, how)
        caplog.clear()
        async with sim_broker(tmp_path) as sim:
            broker = sim.broker
            assert ("Old" in broker.state.topics, "New" in broker.state.topics) == (True, False)
            assert (
                broker.state.offsets.get("old", "Old", 0),
                broker.state.offsets.get("new", "New", 0),
            ) == (
                1,
                -1,
            )
            for file in (
                broker.tables.topics_file,
                broker.tables.groups_file,
                broker.tables.offsets_file,
            ):
                await file.saved()  # whole again, without waiting for the next change
        lines = [
            record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
        ]
        for name in TABLES:
            [line] = [each for each in lines if f"{config / name} " in each]
            assert f"{name}.bak" in line
            assert (
                "is missing"
                if how == "missing"
                else "is empty"
                if how in ("empty", "blank")
                else "cannot be"
            ) in line
        assert any("topics.json" in line and "does not know: New" in line for line in lines)
        caplog.clear()
        async with sim_broker(tmp_path):
            assert not [record for record in caplog.records if record.levelno == logging.ERROR]

    asyncio.run(main())


def test_a_damaged_table_never_replaces_its_backup(tmp_path: Path) -> None:
    """Else a crash in the middle of the next write would leave neither. It is kept under another
    name."""

    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            await fill(sim)
        file = tmp_path / "config/topics.json"
        backup = file.with_name("topics.json.bak")
        before = backup.read_bytes()
        file.write_bytes(b"{garbled")
        async with sim_broker(tmp_path) as sim:
            await sim.broker.tables.topics_file.saved()
            assert backup.read_bytes() == before
            assert b'"Old"' in file.read_bytes()
        assert file.with_name("topics.json.damaged").read_bytes() == b"{garbled"

    asyncio.run(main())


def test_so_it_is_with_the_filters_of_groups(tmp_path: Path) -> None:
    """The store asks them for bit maps, so they are there before it is."""
    sql = SubscriptionData(topic="T", sub_string="a > 1", sub_version=1, expression_type="SQL92")

    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            for number in range(2):
                at_once(
                    sim.broker.state.filters.register(f"g{number}", [Subscription(sql)], lambda: 1)
                )
                sim.broker.tables.filters_file.changed()
                await sim.broker.tables.filters_file.saved()
        file = tmp_path / "config/consumerFilter.json"
        backup = file.with_name("consumerFilter.json.bak")
        before = backup.read_bytes()
        assert b'"g0"' in before
        assert b'"g1"' not in before
        file.write_bytes(b"{garbled")
        async with sim_broker(tmp_path) as sim:
            assert sim.broker.state.filters.get("T", "g0") is not None
            await sim.broker.tables.filters_file.saved()
            assert b'"g0"' in file.read_bytes()
            assert backup.read_bytes() == before
        assert file.with_name("consumerFilter.json.damaged").read_bytes() == b"{garbled"

    asyncio.run(main())


@pytest.mark.parametrize("how", ["empty", "missing"])
def test_without_any_backup_it_is_told_too(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            await fill(sim)
        for path in (tmp_path / "config").glob("topics.json*"):
            path.unlink()
        if how == "empty":
            (tmp_path / "config/topics.json").touch()
        caplog.clear()
        async with sim_broker(tmp_path) as sim:
            assert "Old" not in sim.broker.state.topics
        assert ("topics.json is empty and has no backup" in caplog.text) == (how == "empty")
        assert "does not know: New, Old" in caplog.text

    asyncio.run(main())


def test_groups_that_only_the_offsets_know_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            await fill(sim)
        damage(tmp_path / "config/subscriptionGroup.json", "empty")
        caplog.clear()
        async with sim_broker(tmp_path):
            pass
        assert (
            "subscriptionGroup.json is not up to date with consumerOffset.json, it does not know: "
            "new" in caplog.text
        )

    asyncio.run(main())


def test_a_new_broker_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path):
            pass
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

    asyncio.run(main())
