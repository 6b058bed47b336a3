"""What requests 25 and 26 see and write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiorocketmq.broker.config import BrokerConfig
from aiorocketmq.broker.runtime_config import RuntimeConfig
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.java_properties import parse_properties
from aiorocketmq.store.config import MessageStoreConfig

from ..sim import ManualClock


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
    changed = asyncio.run(runtime.update("defaultTopicQueueNums=3\ntheirOwn=2\n", "test"))
    assert changed == ["defaultTopicQueueNums"]
    assert config.default_topic_queue_nums == 3
    found = written(path)
    assert (found["defaultTopicQueueNums"], found["theirOwn"]) == ("3", "1")
    assert found["tls.server.keyPassword"] == "secret"
    assert "secret" not in runtime.text()
    assert runtime.data_version.counter == 1


def test_what_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    runtime = runtime_config(path, BrokerConfig(broker_name="b"))
    assert asyncio.run(runtime.update("brokerName=b\nfileReservedTime=72\nnobody=1", "test")) == []
    assert not path.exists()
    assert runtime.data_version.counter == 0


def test_older_spellings_count(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    runtime = runtime_config(path, BrokerConfig(broker_name="b"))
    assert asyncio.run(runtime.update("mapedFileSizeCommitLog=65536", "test")) == ["mappedFileSizeCommitLog"]
    assert written(path)["mappedFileSizeCommitLog"] == "65536"


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
