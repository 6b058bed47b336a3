"""What Prometheus is told. (The HTTP side: tests/e2e/test_prometheus.py.)"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra [prometheus] is not installed")

from prometheus_client.parser import text_string_to_metric_families

from aiorocketmq.broker.monitoring.families import FAMILIES, OWN, PREFIX
from aiorocketmq.broker.monitoring.metrics import PIECE
from aiorocketmq.broker.monitoring.prometheus import PrometheusServer, texts
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.raft.ready import Role

from ...fault.disks import FullDisk
from ...sim import ManualClock, turns_during
from ..sim_broker import SimBroker, SimClient, sim_broker, store_config
from ..transaction_scenes import COMMIT, GROUP, checked, end, half, play

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: str) -> Samples:
    """Name and labels (but those of the broker) to value."""
    return {
        (
            sample.name,
            frozenset((k, v) for k, v in sample.labels.items() if k not in ("cluster", "node_id")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def prometheus_of(world: SimBroker) -> PrometheusServer:
    assert world.broker.prometheus is not None
    return world.broker.prometheus


async def scrape(world: SimBroker) -> str:
    return b"".join(await prometheus_of(world).text()).decode()


def test_what_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            client = world.connect()
            await client.heartbeat("c1", "g", topic="T")
            for _ in range(4):
                await client.send("T", b"x")
            header: dict[str, Any] = {
                "consumer_group": "g", "topic": "T", "queue_id": 0, "max_msg_nums": 3,
                "sys_flag": 5, "commit_offset": 1,
                "suspend_timeout_millis": 0, "sub_version": 0, "subscription": "*",
            }  # fmt: skip
            await client.ask(RequestCode.PULL_MESSAGE, PullMessageRequest(queue_offset=0, **header))
            await client.ask(
                RequestCode.CONSUMER_SEND_MSG_BACK,
                ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=-1),
            )
            text = await scrape(world)
            found = samples_of(text)
            assert one(found, "rocketmq_messages_in_total", topic="T") == 4
            assert one(found, "rocketmq_messages_out_total", topic="T", consumer_group="g") == 3
            assert one(found, "rocketmq_pulls_total", topic="T", consumer_group="g") == 1
            assert one(found, "rocketmq_pull_seconds_total", topic="T", consumer_group="g") == 0
            assert one(found, "rocketmq_consumer_lag_messages", topic="T", consumer_group="g") == 3
            assert (
                one(found, "rocketmq_send_back_messages_total", topic="T", consumer_group="g") == 1
            )
            assert one(found, "rocketmq_send_to_dlq_messages_total", consumer_group="g") == 1
            assert one(found, "rocketmq_consumer_connections", consumer_group="g") == 1
            assert one(found, "rocketmq_put_messages_total") == 5
            assert one(found, "rocketmq_put_bytes_total") == world.broker.store.max_phy_offset
            assert one(found, "rocketmq_storage_writeable") == 1
            assert one(found, "rocketmq_replication_slaves") == 0
            assert 0 < one(found, "rocketmq_storage_disk_ratio", disk="commit_log") <= 1
            assert one(found, "rocketmq_send_wait_seconds_bucket", le="+Inf") == 0
            assert 'cluster="C",node_id="b"' in text

    asyncio.run(run())


def test_how_far_transactions_are_is_no_lag_of_a_group(tmp_path: Path) -> None:
    """Nobody is ever connected there, so that an alert would go on for good."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        await end(client, await half(world, client), COMMIT)
        await checked(world)
        await half(world, client, "K2")
        assert any(group == GROUP for _, group, _ in world.broker.state.offsets.each())
        assert GROUP not in await scrape(world)

    play(tmp_path, scene, prometheus_port=1)


def test_the_table_of_metrics_is_what_is_told(tmp_path: Path) -> None:
    """All of it, each with its labels, and nothing else."""

    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            client = world.connect()
            await client.heartbeat("c1", "g", topic="T")
            await client.send("T", b"x")
            state, stats = world.broker.state, world.broker.monitoring.stats
            state.topics.create_for_broker("%DLQ%g").put_nums = 1
            stats.pulls["T", "g"] = {}
            stats.send_backs["T", "g"] = 1
            state.offsets.commit("g", "T", 0, 0)
            metrics: Any = prometheus_of(world)._metrics
            metrics.member, metrics._slave_lags = Leader(), lambda: {"10.0.0.1:1": 7}
            pieces = list(metrics.pieces({"commit_log": 0.5}, 7_500))
            told = {
                (piece.name, piece.type, piece.documentation): {
                    frozenset(sample.labels) - {"le"} for sample in piece.samples
                }
                for piece in pieces
            }
            assert told == {
                (PREFIX + each.name, each.kind.value, each.text): {frozenset(OWN + each.labels)}
                for each in FAMILIES.values()
            }
            found = samples_of(b"".join(texts(pieces)).decode())
            assert {name for name, _ in found} == {
                name for each in FAMILIES.values() for name in each.series
            }
            assert one(found, "rocketmq_time_seconds") == 7.5

    asyncio.run(run())


def test_a_broker_that_has_no_place_for_messages_takes_none(tmp_path: Path) -> None:
    """Each message tries again to make a file, so that none is refused beforehand."""

    async def run() -> None:
        disk = FullDisk(0)
        async with sim_broker(tmp_path, disk=disk, prometheus_port=1) as world:
            client = world.connect()
            with pytest.raises(BrokerError):
                await client.send("T", b"x")
            assert one(samples_of(await scrape(world)), "rocketmq_storage_writeable") == 0
            disk.free = 1 << 30
            world.clock.advance(1)
            await client.send("T", b"x")
            assert one(samples_of(await scrape(world)), "rocketmq_storage_writeable") == 1

    asyncio.run(run())


def test_sends_that_are_refused_before_the_store_count_as_failures(tmp_path: Path) -> None:
    """The original counts those that its store refused, which ``brokerStatus`` tells."""

    async def run() -> None:
        clock = ManualClock()
        later: Any = {"start_accept_send_request_time_stamp": clock.time_ms() + 1000}
        async with sim_broker(tmp_path, clock=clock, prometheus_port=1, **later) as world:
            client = world.connect()
            with pytest.raises(BrokerError, match="unable to service"):
                await client.send("T", b"x")
            clock.advance(1)
            with pytest.raises(BrokerError, match="queueId"):
                await client.send("T", b"x", queue_id=99)
            with pytest.raises(BrokerError, match="message is illegal"):
                await client.send("T", bytes(5 << 20))
            assert one(samples_of(await scrape(world)), "rocketmq_put_failures_total") == 3
            assert world.broker.monitoring.stats.put_failed == 1

    asyncio.run(run())


def test_damage_that_has_expired_is_there_no_more(tmp_path: Path) -> None:
    """Nobody mends it then: what was found less what was mended would stay for good."""

    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            damage = world.broker.store.damage
            for at in (0, 500, 1000):
                damage.remember(at, 100)
            damage.mend(500)
            assert one(samples_of(await scrape(world)), "rocketmq_damaged_records_left") == 2
            damage.forget_before(1000)
            assert one(samples_of(await scrape(world)), "rocketmq_damaged_records_left") == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("role", "wanted"), [(BrokerRole.SYNC_MASTER, 1), (BrokerRole.ASYNC_MASTER, 0)]
)
def test_slaves_that_never_came_are_missed(tmp_path: Path, role: BrokerRole, wanted: int) -> None:
    async def run() -> None:
        store = store_config(tmp_path, broker_role=role)
        async with sim_broker(tmp_path, store=store, prometheus_port=1) as world:
            found = samples_of(await scrape(world))
            assert one(found, "rocketmq_replication_slaves") == 0
            assert one(found, "rocketmq_replication_slaves_wanted") == wanted

    asyncio.run(run())


def test_waits_become_a_histogram(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            client = world.connect()
            for _ in range(3):
                await client.send("T", b"x")
            flush, sampler = world.broker.store.flush, world.broker.monitoring.sampler
            flush._waits_ms.update({7: 1, 300: 1})
            for _ in range(10):
                sampler.sample()
            found = samples_of(await scrape(world))
            buckets = {
                le: one(found, "rocketmq_send_wait_seconds_bucket", le=le)
                for le in ("0.001", "0.01", "0.2", "0.5", "+Inf")
            }
            assert buckets == {"0.001": 1, "0.01": 2, "0.2": 2, "0.5": 3, "+Inf": 3}
            assert one(found, "rocketmq_send_wait_seconds_count") == 3
            assert one(found, "rocketmq_send_wait_seconds_sum") == 0.307

    asyncio.run(run())


def test_many_topics_come_in_pieces_and_are_described_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            for number in range(3 * PIECE):
                world.broker.state.topics.create_for_broker(f"T{number}").put_nums = number + 1
            metrics = prometheus_of(world)._metrics
            pieces = [
                piece for piece in metrics.pieces({}, 0) if piece.name == "rocketmq_messages_in"
            ]
            assert [len(piece.samples) for piece in pieces] == [PIECE] * 3
            text = b"".join(texts(pieces)).decode()
            assert text.count("# TYPE") == 1
            found = samples_of(text)
            assert len(found) == 3 * PIECE
            assert one(found, "rocketmq_messages_in_total", topic="T50") == 51

    asyncio.run(run())


def test_other_work_goes_on_during_a_scrape(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            for number in range(20 * PIECE):
                world.broker.state.topics.create_for_broker(f"T{number}").put_nums = 1
            assert await turns_during(scrape(world)) >= 40  # two metrics of twenty pieces each

    asyncio.run(run())


def test_it_is_off_unless_a_port_is_set(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            assert world.broker.prometheus is None

    asyncio.run(run())


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1):
            pass

    for name in (
        "aiorocketmq.broker.monitoring.metrics",
        "aiorocketmq.broker.monitoring.prometheus",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client.metrics_core", None)
    with pytest.raises(LaunchError, match=r"aiorocketmq\[prometheus\]"):
        asyncio.run(run())


class Leader:
    """A member that leads."""

    role = Role.LEADER
    term, committed_index, elections, waiting = 7, 41, 3, 2
    has_other_old_log = True

    def lags(self) -> dict[str, int]:
        return {"n1": 0, "n2": 5}


def test_a_member_of_a_group_tells_its_role_and_how_far_others_are(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=1) as world:
            assert "rocketmq_raft" not in await scrape(world)
            prometheus: Any = prometheus_of(world)
            prometheus._metrics.member = Leader()
            found = samples_of(await scrape(world))
            assert one(found, "rocketmq_raft_role") == 2
            assert one(found, "rocketmq_raft_term") == 7
            assert one(found, "rocketmq_raft_committed_index") == 41
            assert one(found, "rocketmq_raft_elections_total") == 3
            assert one(found, "rocketmq_raft_waiting") == 2
            assert one(found, "rocketmq_raft_old_log_differs") == 1
            assert one(found, "rocketmq_raft_lag_entries", member="n2") == 5

    asyncio.run(run())
