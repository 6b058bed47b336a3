"""Where messages go that do not go to their topic at once (``broker-services.md`` §2.3)."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.sends.placement import Placements, delay_level
from aiorocketmq.remoting.protocol.message.properties import (
    MessageError,
    decode_properties,
    tags_code,
)
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.delay_levels import parse_delay_levels

from ...golden_files import golden_lines

PLACEMENTS = Placements((1_000, 5_000, 10_000))


@pytest.mark.parametrize(
    ("asked", "level", "delay"),
    [("1", 1, 1_000), ("3", 3, 10_000), ("99", 3, 10_000), ("+2", 2, 5_000)],
)
@pytest.mark.parametrize(
    "sys_flag", [0, MessageSysFlag.TRANSACTION_COMMIT | MessageSysFlag.COMPRESSED]
)
def test_a_delay_leads_into_the_schedule_topic(
    asked: str, level: int, delay: int, sys_flag: int
) -> None:
    properties = {"TAGS": "a", "DELAY": asked, "WAIT": "true", "REAL_TOPIC": "older"}
    placed = PLACEMENTS.place("T", 7, properties, sys_flag, 1_000_000)
    assert (placed.topic, placed.queue_id, placed.is_scheduled) == (
        "SCHEDULE_TOPIC_XXXX",
        level - 1,
        True,
    )
    assert (placed.tags_code, placed.sys_flag) == (1_000_000 + delay, sys_flag)
    assert decode_properties(placed.properties) == {
        "TAGS": "a", "DELAY": str(level), "WAIT": "true", "REAL_TOPIC": "T", "REAL_QID": "7",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("delay", "sys_flag"),
    [
        ("0", 0),
        ("-1", 0),
        (None, 0),
        ("2", MessageSysFlag.TRANSACTION_PREPARED),
        ("2", MessageSysFlag.TRANSACTION_ROLLBACK),
    ],
)
def test_others_go_to_their_topic(delay: str | None, sys_flag: int) -> None:
    properties = {"TAGS": "a"} | ({} if delay is None else {"DELAY": delay})
    placed = PLACEMENTS.place("T", 7, properties, sys_flag, 1_000_000)
    assert placed[:2] == ("T", 7)
    assert not placed.is_scheduled
    assert (placed.tags_code, decode_properties(placed.properties)) == (tags_code("a"), properties)


@pytest.mark.parametrize("text", ["soon", "1.0", "", "9" * 30])
def test_a_delay_level_is_a_number(text: str) -> None:
    with pytest.raises(MessageError, match="number of a delay level"):
        delay_level({"DELAY": text})


def test_what_the_original_stored() -> None:
    """Of every message that was sent with a delay: the record, its queue and its time of
    delivery."""
    sent = [each for each in golden_lines("store-clean.manifest") if "DELAY" in each["properties"]]
    dump = list(golden_lines("store-clean-master.dump"))
    records = {
        each["properties"]["UNIQ_KEY"]: each
        for each in dump
        if each["type"] == "msg"
        and each["topic"] == "SCHEDULE_TOPIC_XXXX"
        and each["reconsumeTimes"] == 0
    }
    times = {
        (each["queueId"], unit[0]): unit[3]
        for each in dump
        if each["type"] == "cq" and each["topic"] == "SCHEDULE_TOPIC_XXXX"
        for unit in each["entries_qoff_phy_size_tag"]
    }
    placements = Placements(parse_delay_levels(MessageStoreConfig().message_delay_level))
    assert len(sent) == 4
    for each in sent:
        record = records[each["msgId"]]
        properties = each["properties"] | {"CLUSTER": "DefaultCluster"}
        placed = placements.place(
            each["topic"], each["queueId"], properties, 0, record["storeTimestamp"]
        )
        assert (placed.topic, placed.queue_id) == (record["topic"], record["queueId"])
        assert decode_properties(placed.properties) == record["properties"]
        assert placed.tags_code == times[record["queueId"], record["queueOffset"]]
