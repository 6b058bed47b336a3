"""Configuration: every property of the original is known, under its name, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiorocketmq.broker.config.config import (
    ALIASES,
    IMPORTANT,
    BrokerConfig,
    BrokerServerConfig,
    without_effect,
)
from aiorocketmq.broker.config.group_config import UNDECIDED_ID, forget_role
from aiorocketmq.broker.daemon import BROKER, RECORDS
from aiorocketmq.broker.start_checks import check
from aiorocketmq.daemon.launch import LaunchError, Settings
from aiorocketmq.remoting.protocol.java_properties import Property, PropertyError, parse_properties
from aiorocketmq.remoting.protocol.wire import fields_of
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType, MessageStoreConfig

from ...golden_files import golden_bytes

OWN = {field.wire_name for record in RECORDS for field in fields_of(record)}


def settings(**properties: str) -> Settings:
    return Settings(
        RECORDS,
        [Property(name, value, "test") for name, value in properties.items()],
        aliases=ALIASES,
    )


def test_no_property_stands_in_two_records() -> None:
    names = [field.wire_name for record in RECORDS for field in fields_of(record)]
    assert sorted(names) == sorted(set(names))


def test_every_property_of_the_original_is_known() -> None:
    text = golden_bytes("conf/golden-json-master.conf").decode()
    found = parse_properties(text, "golden-json-master.conf")
    assert {each.name for each in found} - OWN == set()
    read = Settings(RECORDS, found, aliases=ALIASES)
    assert read.unknown == []
    assert read[BrokerConfig].broker_ip1 == "127.0.0.1"
    assert read[BrokerServerConfig].listen_port == 27811
    assert read[MessageStoreConfig].mapped_file_size_commit_log == 65536


def test_defaults_are_those_of_the_original() -> None:
    """The captured configuration is the original's own, apart from what its run changed and what
    the machine decides."""
    changed = {
        "brokerIP1", "brokerIP2", "brokerName", "namesrvAddr", "storePathRootDir",
        "storePathCommitLog", "rocketmqHome",
        "listenPort", "haListenPort", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue",
        "maxHashSlotNum",
        "maxIndexNum", "transactionTimeOut", "transactionCheckInterval", "transactionCheckMax",
        "enablePropertyFilter",
        "flushDelayOffsetInterval", "bitMapLengthConsumeQueueExt",
    }  # fmt: skip
    machine = re.compile(r".*ThreadPoolNums|clientCallbackExecutorThreads")
    ours = settings().as_properties()
    theirs = parse_properties(golden_bytes("conf/golden-json-master.conf").decode())
    for each in theirs:
        if each.name not in changed and not machine.fullmatch(each.name):
            assert ours[each.name] == each.value, each.name


@pytest.mark.parametrize("name", ["mapedFileSizeCommitLog", "mappedFileSizeCommitLog"])
def test_both_spellings(name: str) -> None:
    read = settings(**{name: "65536"})
    assert read[MessageStoreConfig].mapped_file_size_commit_log == 65536
    assert [each.name for each in read.renamed] == ([name] if name in ALIASES else [])
    assert read.unknown == []


def test_aliases_lead_to_properties() -> None:
    assert set(ALIASES.values()) | IMPORTANT <= OWN
    assert not set(ALIASES) & OWN


def test_a_bad_value_is_refused() -> None:
    with pytest.raises(PropertyError, match="brokerPermission must be a whole number"):
        settings(brokerPermission="six")


@pytest.mark.parametrize(
    ("name", "too_little", "least"),
    [
        ("mappedFileSizeCommitLog", 0, 4096),
        ("mappedFileSizeConsumeQueue", 0, 20),
        ("maxMessageSize", 0, 1),
        ("maxTransferCountOnMessageInMemory", 0, 1),
        ("maxHashSlotNum", 0, 1),
        ("fileReservedTime", -1, 0),
        ("defaultTopicQueueNums", 0, 1),
        ("waitTimeMillsInSendQueue", 0, 1),
        ("brokerPermission", -1, 0),
        ("maxConnections", 0, 1),
        ("writePauseBytes", -1, 4096),
        ("firstByteS", 0, 1),
    ],
)
def test_numbers_with_which_nothing_would_work_are_refused(
    name: str, too_little: int, least: int
) -> None:
    with pytest.raises(
        PropertyError,
        match=f"^test: {name} must be a (whole )?number (from|of at least) {least}\\b",
    ):
        settings(**{name: str(too_little)})
    settings(**{name: str(least)})


GROUP = {
    "enableDLegerCommitLog": "true",
    "dLegerPeers": "n0-10.0.0.1:40911;n1-10.0.0.2:40911",
    "dLegerSelfId": "n0",
}


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"storePathRootDir": " "}, "storePathRootDir must not be empty"),
        (
            {"namesrvAddr": "ns1:9876;ns2"},
            "namesrvAddr: 'ns2' is no address; it must look like host:port",
        ),
        ({"brokerRole": "SLAVE"}, "needs a brokerId above 0"),
        ({"brokerId": "1"}, "is a slave's"),
        ({"enableDLegerCommitLog": "true"}, "enableDLegerCommitLog=true: dLegerPeers names no"),
        ({**GROUP, "dLegerSelfId": "n9"}, "dLegerSelfId n9 is not among dLegerPeers"),
        ({**GROUP, "dLegerPeers": "n0:1"}, "dLegerPeers: 'n0:1' is no member"),
        ({**GROUP, "preferredLeaderId": "n9"}, "preferredLeaderId n9 is not among"),
        ({**GROUP, "minVoteIntervalMs": "500"}, "minVoteIntervalMs=500 is more than"),
        (
            {**GROUP, "dLegerPeers": "n0-10.0.0.1:10911;n1-10.0.0.2:1"},
            "the port of this member in dLegerPeers=10911 is listenPort already",
        ),
        ({"listenPort": "2"}, "VIP"),
        ({"brokerName": " "}, "brokerName"),
        ({"brokerName": "x" * 513}, "brokerName has 513 characters, a name server takes 512"),
        ({"brokerClusterName": "x" * 513}, "brokerClusterName has 513 characters"),
        ({"brokerIP2": "x" * 256}, "brokerIP2=xxx.* is no address and no name"),
        ({"messageDelayLevel": "1s 5x"}, "messageDelayLevel: delay level '5x' is not a number"),
        ({"messageDelayLevel": " "}, "messageDelayLevel: there is no delay level"),
    ],
)
def test_what_the_broker_cannot_be(properties: dict[str, str], text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        check(settings(**properties))


def test_the_defaults_can_start() -> None:
    check(settings())


def test_what_a_member_of_a_group_is_comes_from_the_election(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither role nor id keeps it from starting; who has set them is told."""
    caplog.set_level("INFO")
    read = settings(**GROUP, brokerRole="SLAVE", flushDiskType="SYNC_FLUSH")
    check(read)
    broker, store = read[BrokerConfig], read[MessageStoreConfig]
    forget_role(broker, store)
    assert (broker.broker_id, store.broker_role) == (UNDECIDED_ID, BrokerRole.ASYNC_MASTER)
    assert store.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert caplog.messages == [
        "without effect in a group that elects its master: brokerRole=SLAVE "
        "flushDiskType=SYNC_FLUSH"
    ]
    forget_role(broker, store)
    assert len(caplog.messages) == 1


def test_properties_without_effect_give_a_reason() -> None:
    reasons = without_effect(BrokerConfig)
    assert reasons["sendMessageThreadPoolNums"] == "there are no thread pools"
    assert reasons["messageStorePlugIn"] == "it names Java classes"
    assert "brokerName" not in reasons


def test_the_command_line_has_the_original_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from aiorocketmq.daemon import launch

    conf = tmp_path / "b.conf"
    conf.write_text("brokerName=from-file\nbrokerClusterName=C\n")
    assert (
        launch.main(BROKER, ["-c", str(conf), "-n", "a:1;b:2", "--brokerName=from-line", "-m"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert {"brokerName=from-line", "brokerClusterName=C", "namesrvAddr=a:1;b:2"} <= set(lines)
