"""What requests 25 and 26 see and write."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.runtime_config import (
    NEXT_START,
    RuntimeConfig,
    check_store_config,
)
from aiorocketmq.broker.daemon import RECORDS, broker_settings
from aiorocketmq.broker.start_checks import check
from aiorocketmq.daemon.launch import COMMAND_LINE, Settings
from aiorocketmq.remoting.errors import BrokerError, RequestError
from aiorocketmq.remoting.file_mode import FileMode
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.java_properties import (
    Property,
    PropertyError,
    parse_properties,
)
from aiorocketmq.remoting.protocol.wire import fields_of
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.services.retention import Rules
from tests.stored import decode_messages

from ...sim import ManualClock
from ..sim_broker import sim_broker, store_config


def runtime_config(path: Path, config: BrokerConfig) -> RuntimeConfig:
    records = (config, MessageStoreConfig(store_path_root_dir="/s"))
    unknown, kept = {"theirOwn": "1"}, {"tls.server.keyPassword": "secret"}
    return RuntimeConfig(records, path, ManualClock(), unknown=unknown, kept=kept)


def written(path: Path) -> dict[str, str]:
    return {each.name: each.value for each in parse_properties(path.read_text())}


def test_the_file_keeps_what_is_shown_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    config = BrokerConfig(broker_name="b")
    runtime = runtime_config(path, config)
    assert "secret" not in runtime.text()
    assert "theirOwn=1" in runtime.text().splitlines()
    changed = asyncio.run(runtime.update("shortPollingTimeMills=3\ntheirOwn=2\n", "test"))
    assert changed == ["shortPollingTimeMills"]
    assert config.short_polling_time_mills == 3
    found = written(path)
    assert (found["shortPollingTimeMills"], found["theirOwn"]) == ("3", "1")
    assert found["tls.server.keyPassword"] == "secret"
    assert "secret" not in runtime.text()
    assert runtime.data_version.counter == 1


def test_what_only_this_machine_says_is_not_written(tmp_path: Path) -> None:
    """Another one, or the original, would take it for what it was told: a home with other files in
    it, plain connections though ``tls.enable`` is set."""
    path = tmp_path / "b.conf"
    given = [
        Property("brokerName", "b", COMMAND_LINE),
        Property("useTLS", "false", "b.conf line 1"),
        Property("listenPort", "0", "b.conf line 2"),
    ]
    settings = broker_settings(Settings(RECORDS, given, config_file=str(path)))
    assert settings.of_this_machine == {"rocketmqHome", "namesrvAddr", "brokerIP1", "brokerIP2"}

    settings.broker.rocketmq_home = "/home"
    runtime = RuntimeConfig(
        (settings.broker, settings.client),
        path,
        ManualClock(),
        of_this_machine=settings.of_this_machine,
    )
    asyncio.run(runtime.update("shortPollingTimeMills=3\nbrokerIP2=192.0.2.1", "test"))
    found = written(path)
    assert {"rocketmqHome", "namesrvAddr", "brokerIP1"}.isdisjoint(found)
    assert (found["brokerName"], found["useTLS"], found["brokerIP2"]) == ("b", "false", "192.0.2.1")
    assert "rocketmqHome=/home" in runtime.text().splitlines()


def test_what_follows_the_machine_can_be_kept_as_it_is(tmp_path: Path) -> None:
    """It has the value that it was given already; the next start may find another address."""
    path = tmp_path / "b.conf"
    config = BrokerConfig(broker_name="b", broker_ip1="192.0.2.1")
    runtime = RuntimeConfig((config,), path, ManualClock(), of_this_machine={"brokerIP1"})
    assert asyncio.run(runtime.update("brokerIP1=192.0.2.1", "test")) == []
    assert written(path)["brokerIP1"] == "192.0.2.1"
    path.unlink()
    assert asyncio.run(runtime.update("brokerIP1=192.0.2.1", "test")) == []
    assert not path.exists()


def test_what_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    runtime = runtime_config(path, BrokerConfig(broker_name="b"))
    assert asyncio.run(runtime.update("brokerName=b\nfileReservedTime=72\nnobody=1", "test")) == []
    assert not path.exists()
    assert runtime.data_version.counter == 0


def test_what_the_next_start_could_not_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    config = BrokerConfig(broker_name="b")
    runtime = runtime_config(path, config)
    with pytest.raises(RequestError, match="characters are no configuration"):
        asyncio.run(runtime.update("regionId=" + "é" * 300_000, "test"))
    assert config.region_id == "DefaultRegion"
    assert not path.exists()


def test_older_spellings_count(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    runtime = runtime_config(path, BrokerConfig(broker_name="b"))
    assert asyncio.run(runtime.update("mapedFileSizeCommitLog=65536", "test")) == [
        "mappedFileSizeCommitLog"
    ]
    assert written(path)["mappedFileSizeCommitLog"] == "65536"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("maxMessageSize=0", "maxMessageSize must be a whole number from 1 to 2147483647, not '0'"),
        ("regionId=\\u12", "the property regionId has a \\u that four hex digits do not follow"),
        ("deleteWhen=99", "deleteWhen=99: expected hours of the day (0 to 23) joined by ';', such"),
    ],
)
def test_who_is_refused_reads_of_the_property_only(tmp_path: Path, text: str, told: str) -> None:
    """Not of the port that he came from, nor of a line of what his tool made of his command."""
    runtime = runtime_config(tmp_path / "b.conf", BrokerConfig(broker_name="b"))
    runtime.checks.append(check_store_config)
    with pytest.raises(RequestError) as refused:
        asyncio.run(runtime.update(text, "192.0.2.7:40123"))
    assert str(refused.value).startswith(told)


OUT_OF_RANGE = {
    "diskMaxUsedSpaceRatio": ("-1", "200"),
    "diskSpaceCleanForciblyRatio": ("0", "101"),
    "diskSpaceWarningLevelRatio": ("0", "101"),
    "accessMessageInMemoryMaxRatio": ("-1", "101"),
    "maxMappedQueueFiles": ("0",),
    "maxMappedQueueBytes": ("0",),
    "mappedFileSizeConsumeQueueExt": ("-1", "0", "4095"),
    "flushIntervalCommitLog": ("0",),
    "flushCommitLogLeastPages": ("-1",),
    "flushCommitLogThoroughInterval": ("-1",),
    "flushIntervalConsumeQueue": ("0",),
    "flushConsumeQueueLeastPages": ("-1",),
    "flushConsumeQueueThoroughInterval": ("-1",),
    "syncFlushTimeout": ("0",),
    "cleanResourceInterval": ("0",),
    "deleteCommitLogFilesInterval": ("-1",),
    "deleteConsumeQueueFilesInterval": ("-1",),
    "flushDelayOffsetInterval": ("0",),
    "scrubIntervalHours": ("-1",),
    "maxLmqConsumeQueueNum": ("-1",),
    "flushConsumerOffsetInterval": ("0",),
    "shortPollingTimeMills": ("-1",),
    "consumerFallbehindThreshold": ("-1",),
    "filterDataCleanTimeSpan": ("-1",),
    "transactionTimeOut": ("-1",),
    "transactionCheckMax": ("0",),
    "transactionCheckInterval": ("0",),
}
"""Each would have been taken, and felt later."""


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in OUT_OF_RANGE.items() for value in values],
)
def test_a_number_out_of_range_is_refused_at_start_and_later(
    tmp_path: Path, name: str, value: str
) -> None:
    told = rf"^{name} must be a whole number (from \d+ to|of at least) \d+, not '{value}'$"
    with pytest.raises(PropertyError, match=told):
        Settings(RECORDS, [Property(name, value)])
    runtime = runtime_config(tmp_path / "b.conf", BrokerConfig(broker_name="b"))
    with pytest.raises(RequestError, match=told):
        asyncio.run(runtime.update(f"{name}={value}", "test"))


def test_a_broker_as_it_is_by_default_is_in_range() -> None:
    found = Settings(RECORDS).as_properties()
    Settings(RECORDS, [Property(*each) for each in found.items()])


def test_the_black_list_cannot_be_emptied(tmp_path: Path) -> None:
    config = BrokerConfig(broker_name="b", config_black_list="brokerName; traceOn")
    runtime = runtime_config(tmp_path / "b.conf", config)
    for name in ("configBlackList", "brokerConfigPath", "rocketmqHome", "brokerName", "traceOn"):
        with pytest.raises(RequestError) as refused:
            asyncio.run(runtime.update(f"regionId=x\n{name}=", "test"))
        assert refused.value.code == 16
    assert config.region_id == "DefaultRegion"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    config = BrokerConfig(broker_name="b")
    (tmp_path / "config").write_text("in the way")
    runtime = runtime_config(tmp_path / "config" / "b.conf", config)
    with pytest.raises(RequestError, match="could not be written"):
        asyncio.run(runtime.update("regionId=x", "test"))
    assert config.region_id == "x"
    with pytest.raises(RequestError, match="could not be written"):
        asyncio.run(runtime.update("regionId=x", "test"))
    (tmp_path / "config").unlink()
    assert asyncio.run(runtime.update("regionId=x", "test")) == []
    assert written(tmp_path / "config" / "b.conf")["regionId"] == "x"


def test_what_counts_at_once_is_changed_in_place_and_told(tmp_path: Path) -> None:
    store = MessageStoreConfig(store_path_root_dir="/s")
    runtime = RuntimeConfig(
        (BrokerConfig(broker_name="b"), store), tmp_path / "b.conf", ManualClock()
    )
    told: list[Sequence[str]] = []
    runtime.on_change.append(told.append)
    changed = asyncio.run(
        runtime.update("fileReservedTime=5\nmappedFileSizeCommitLog=65536\nregionId=x\n", "test")
    )
    assert told == [changed] == [["fileReservedTime", "mappedFileSizeCommitLog", "regionId"]]
    assert (store.file_reserved_time, store.mapped_file_size_commit_log) == (5, 1 << 30)
    shown = {each.name: each.value for each in parse_properties(runtime.text())}
    assert (shown["fileReservedTime"], shown["mappedFileSizeCommitLog"]) == ("5", "65536")
    assert written(tmp_path / "b.conf")["mappedFileSizeCommitLog"] == "65536"


def test_a_value_that_a_check_refuses_changes_nothing(tmp_path: Path) -> None:
    store, config = MessageStoreConfig(store_path_root_dir="/s"), BrokerConfig(broker_name="b")
    runtime = RuntimeConfig((config, store), tmp_path / "b.conf", ManualClock())
    runtime.checks.append(
        lambda record: Rules.of(record) if isinstance(record, MessageStoreConfig) else None
    )
    with pytest.raises(RequestError, match="deleteWhen") as refused:
        asyncio.run(runtime.update("regionId=x\ndeleteWhen=99\n", "test"))
    assert refused.value.code == 1
    assert (config.region_id, store.delete_when) == ("DefaultRegion", "04")
    assert not (tmp_path / "b.conf").exists()


def test_who_may_change_a_configuration_may_not_run_code_with_it(tmp_path: Path) -> None:
    runtime = runtime_config(tmp_path / "b.conf", BrokerConfig(broker_name="b"))
    for line in ("requestHooks=os:abort", "rocketmq.acl.plain.file=mine.yml"):
        with pytest.raises(RequestError) as refused:
            asyncio.run(runtime.update(line, "test"))
        assert refused.value.code == 16


def test_what_a_broker_is_counts_at_the_next_start() -> None:
    known = {field.wire_name for record in RECORDS for field in fields_of(record)}
    assert known >= NEXT_START
    assert {
        "brokerName",
        "listenPort",
        "storePathRootDir",
        "brokerRole",
        "flushDiskType",
        "aclEnable",
    } <= NEXT_START
    assert (
        not {"maxMessageSize", "regionId", "traceOn", "fileReservedTime", "brokerPermission"}
        & NEXT_START
    )


def test_a_running_broker_takes_over_what_is_changed(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()

            async def change(text: str) -> int:
                return (
                    await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, text.encode())
                ).code

            first = await client.send("T", b"0123456789")
            assert (first.msg_region, first.trace_on) == ("DefaultRegion", True)
            assert (
                await change(
                    "regionId=r2\ntraceOn=false\nmaxMessageSize=100\nmaxTransferCountOnMessageInMemory=2"
                )
                == 0
            )
            second = await client.send("T", b"x" * 100)
            assert (second.msg_region, second.trace_on) == ("r2", False)
            with pytest.raises(BrokerError, match="msg body length limit 100B"):
                await client.send("T", b"x" * 101)
            await client.send("T", b"x")
            header = PullMessageRequest(
                consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32,
                sys_flag=4, commit_offset=0,
                suspend_timeout_millis=0, sub_version=0, subscription="*",
            )  # fmt: skip
            assert (
                len(decode_messages((await client.ask(RequestCode.PULL_MESSAGE, header)).body)) == 2
            )
            assert await change(f"startAcceptSendRequestTimeStamp={world.clock.time_ms() + 1}") == 0
            with pytest.raises(BrokerError, match="unable to service"):
                await client.send("T", b"x")
            assert await change("startAcceptSendRequestTimeStamp=0\nmaxMessageSize=4194304") == 0
            await client.send("T", b"x" * 101)
            assert await change("deleteWhen=99") == 1
            file = world.broker.settings.changes_file.read_text()
            assert "regionId=r2" in file
            assert "deleteWhen=04" in file

    asyncio.run(run())


REFUSED = {
    "listenPort=2": "listenPort must be 0 or more than 2",
    "listenPort=65535": "haListenPort would be 65536",
    "listenPort={taken}": "listenPort={taken} cannot be listened on: Address already in use",
    "haListenPort={taken}": "haListenPort={taken} cannot be listened on",
    "haListenPort=10909": "haListenPort=10909 is the VIP port already",
    "prometheusPort=10911": "prometheusPort=10911 is listenPort already",
    "bindAddress=192.0.2.1": "bindAddress=192.0.2.1 cannot be listened on",
    "brokerIP1=no.such.host.invalid": "brokerIP1=no.such.host.invalid has no address",
    "brokerRole=SLAVE": "brokerRole=SLAVE needs a brokerId above 0",
    "brokerId=1": "brokerId=1 is a slave's",
    "brokerName=\u0020": "brokerName must not be empty",
    "namesrvAddr=nowhere": "namesrvAddr: ",
    "fetchNamesrvAddrByAddressServer=true\nrocketmq.namesrv.domain=a b": (
        "rocketmq.namesrv.domain: the address server 'a b' must be a host"
    ),
    "messageDelayLevel=1x": "messageDelayLevel: delay level '1x'",
    "deleteWhen=25": "deleteWhen=25: expected hours",
    "mappedFileSizeCommitLog=65536": (
        "has 1048576 bytes: it must be that of the files that are there"
    ),
    "storePathRootDir=/dev/null/store": (
        "the store cannot be at /dev/null/store: /dev/null is no folder"
    ),
    "storePathRootDir=~nobody-here/x": "~nobody-here/x: there is no such user, or it has no home",
    "storePathCommitLog=/dev/null/log": "the store cannot be at /dev/null/log",
    "readOnlyCommitLogStorePaths=/dev/null/log": "the store cannot be at /dev/null/log",
    "storePathCommitLog=/tmp\nreadOnlyCommitLogStorePaths=/tmp": (
        "every path is also in readOnlyCommitLogStorePaths"
    ),
    "enableDLegerCommitLog=true": "enableDLegerCommitLog=true",
    "haSendHeartbeatInterval=20000": (
        "haHousekeepingInterval=20000 must be more than haSendHeartbeatInterval=20000"
    ),
    "aclEnable=true": "ACL file {home}/conf/plain_acl.yml: ",
    "fileMode=0777": "fileMode must be 0600, 0640, 0660 or 0644, not '0777'",
    "haMaxConnectionsPerAddress=1": (
        "haMaxConnectionsPerAddress must be a whole number from 2 to 64, not '1'"
    ),
}
"""What would keep the broker from starting again, and what is said about it."""


def test_what_the_next_start_would_refuse_is_refused_now(tmp_path: Path) -> None:
    async def run() -> None:
        with socket.create_server(("", 0)) as server:
            taken = server.getsockname()[1]
            accounts = tmp_path / "home" / "conf" / "plain_acl.yml"
            accounts.parent.mkdir(parents=True)
            accounts.write_text("accounts: [\n")
            home = str(tmp_path / "home")
            async with sim_broker(tmp_path, rocketmq_home=home) as world:
                client = world.connect()
                await client.send("T", b"x")
                file = tmp_path / "config" / "broker.properties"
                for text, told in REFUSED.items():
                    expected = told.format(taken=taken, home=home)
                    answer = await client.ask(
                        RequestCode.UPDATE_BROKER_CONFIG,
                        None,
                        f"regionId=r2\n{text.format(taken=taken)}".encode(),
                    )
                    assert (answer.code, expected in (answer.remark or "")) == (1, True), (
                        answer.remark
                    )
                    assert not file.exists()
                assert world.broker.settings.broker.region_id == "DefaultRegion", "nothing of it"
                both = b"brokerRole=SLAVE\nbrokerId=1"
                assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, both)).code == 0, (
                    "together they are good"
                )
                assert (
                    await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerId=0")
                ).code == 1, "and apart not"

    asyncio.run(run())


@pytest.mark.parametrize("told_by_others", [False, True])
def test_a_broker_without_name_servers_leaves_those_that_it_had(
    tmp_path: Path, told_by_others: bool
) -> None:
    """Unless an address server tells them."""

    async def run() -> None:
        async with sim_broker(
            tmp_path,
            namesrv_addr="127.0.0.1:1",
            fetch_namesrv_addr_by_address_server=told_by_others,
        ) as world:
            change = world.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"namesrvAddr=")
            assert (await change).code == 0
            assert bool(world.broker.registry.name_servers.links) == told_by_others

    asyncio.run(run())


def test_accounts_that_can_be_read_are_no_reason_to_refuse(tmp_path: Path) -> None:
    """Nor that there are none: the next start makes their file."""

    async def run() -> None:
        async with sim_broker(tmp_path, rocketmq_home=str(tmp_path / "home")) as world:
            change = world.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"aclEnable=true")
            assert (await change).code == 0
            assert not (tmp_path / "home").exists()

    asyncio.run(run())


def test_an_address_for_scrapes_that_is_not_here_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")

    async def run() -> None:
        async with sim_broker(tmp_path, prometheus_port=free_port("")) as world:
            client = world.connect()
            refused, taken = [
                await client.ask(
                    RequestCode.UPDATE_BROKER_CONFIG, None, f"prometheusAddress={address}".encode()
                )
                for address in ("192.0.2.1", "localhost")
            ]
            assert refused.code == 1
            assert "prometheusAddress=192.0.2.1 cannot be listened on" in (refused.remark or "")
            assert taken.code == 0, taken.remark

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "mappedFileSizeCommitLog=65536",
            "has 1048576 bytes: it must be that of the files that are there",
        ),
        ("storePathDLedgerCommitLog=/dev/null/log", "the store cannot be at /dev/null/log"),
    ],
)
def test_what_the_next_start_of_a_member_would_refuse_is_refused_now(
    tmp_path: Path, text: str, told: str
) -> None:
    store = store_config(
        tmp_path,
        enable_dledger_commit_log=True,
        dledger_group="b",
        dledger_peers="n0-127.0.0.1:40911",
        dledger_self_id="n0",
    )
    (store.dledger_data_paths[0]).mkdir(parents=True)
    first = store.dledger_data_paths[0] / f"{0:020}"

    async def run() -> None:
        async with sim_broker(tmp_path, store=store) as world:
            first.write_bytes(bytes(1 << 20))  # as if it had led
            answer = await world.connect().ask(
                RequestCode.UPDATE_BROKER_CONFIG, None, text.encode()
            )
            assert (answer.code, told in (answer.remark or "")) == (1, True), answer.remark

    asyncio.run(run())


def test_a_port_that_waits_for_the_next_start_can_be_taken_back(tmp_path: Path) -> None:
    """It is in use: by this broker."""

    async def run() -> None:
        with socket.create_server(("", 0)) as server:
            own = server.getsockname()[1]
            async with sim_broker(tmp_path, server=BrokerServerConfig(listen_port=own)) as world:
                client = world.connect()

                async def change(text: str) -> tuple[int, str | None]:
                    answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, text.encode())
                    return answer.code, answer.remark

                assert (await change(f"listenPort={free_port('')}"))[0] == 0
                assert await change(f"listenPort={own}") == (0, None)
        found = written(tmp_path / "config" / "broker.properties")
        assert found["listenPort"] == str(own)

    asyncio.run(run())


def test_a_port_that_is_another_process_s_at_another_address_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.2", 0)) as other:
            port = other.getsockname()[1]
            own = BrokerServerConfig(listen_port=port, bind_address="127.0.0.1")
            async with sim_broker(tmp_path, server=own) as world:
                change = b"bindAddress=127.0.0.2"
                answer = await world.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, change)
        assert answer.code == 1
        told = f"listenPort={port} cannot be listened on at 127.0.0.2: Address already in use"
        assert told in (answer.remark or "")

    asyncio.run(run())


def test_what_is_written_can_be_read_at_the_next_start(tmp_path: Path) -> None:
    """Enums by the text that properties have, not by the names of their members."""

    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            change = b"regionId=r2\nfileMode=0640\nflushDiskType=SYNC_FLUSH"
            assert (
                await world.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, change)
            ).code == 0
        found = written(tmp_path / "config" / "broker.properties")
        assert (found["fileMode"], found["flushDiskType"]) == ("0640", "SYNC_FLUSH")
        settings = Settings(
            RECORDS, parse_properties((tmp_path / "config" / "broker.properties").read_text())
        )
        check(settings)
        assert settings[BrokerServerConfig].file_mode is FileMode.GROUP_READS

    asyncio.run(run())
