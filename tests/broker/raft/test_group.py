"""What ``dLegerPeers`` and its like say about a group."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.broker.raft.group import (
    follower_broker_id,
    own_port,
    raft_settings,
    read_peers,
)
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import StoreConfigError

PEERS = "n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913"


def config(**changes: Any) -> MessageStoreConfig:
    return MessageStoreConfig(**{"dledger_peers": PEERS, "dledger_self_id": "n1", **changes})


def test_members_are_read_in_their_order() -> None:
    assert read_peers("n0-a-host:40911; n1-[::1]:40912 ;") == {
        "n0": "a-host:40911",
        "n1": "[::1]:40912",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "names no member"),
        (" ; ", "names no member"),
        ("n0:40911", "must look like id-host:port"),
        ("-host:1", "must look like id-host:port"),
        ("n0-host", "must look like id-host:port"),
        ("n0-host:x", "must look like id-host:port"),
        ("n0-host:0", "no port from 1 to 65535"),
        ("n0-host:65536", "no port from 1 to 65535"),
        ("n0-host:1;n0-other:1", "names n0 twice"),
        (";".join(f"n{n}-h:1" for n in range(65)), "65 members"),
    ],
)
def test_what_is_no_group_is_told(text: str | None, reason: str) -> None:
    with pytest.raises(StoreConfigError, match=reason):
        read_peers(text)


def test_settings_of_a_member() -> None:
    settings = raft_settings(config(preferred_leader_id="n2; n0;"), "broker-a")
    assert (settings.group, settings.self_id) == ("broker-a", "n1")
    assert settings.preferred_leaders == ("n2", "n0")
    assert own_port(settings) == 40912
    assert raft_settings(config(dledger_group="G"), "broker-a").group == "G"


def test_a_member_has_to_be_one_of_the_group() -> None:
    with pytest.raises(StoreConfigError, match="n9 is not among dLegerPeers"):
        raft_settings(config(dledger_self_id="n9"), "b")
    with pytest.raises(StoreConfigError, match="preferredLeaderId n9"):
        raft_settings(config(preferred_leader_id="n9"), "b")
    with pytest.raises(StoreConfigError, match="a letter and a number"):
        raft_settings(config(dledger_self_id="ab", dledger_peers="ab-h:1"), "b")


def test_a_follower_has_the_id_of_its_number_and_one() -> None:
    assert [follower_broker_id(each) for each in ("n0", "n2", "x17")] == [1, 3, 18]
