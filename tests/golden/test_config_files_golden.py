"""The files of ``config/`` as the original left them, read into types and written again."""

from __future__ import annotations

import tarfile
from typing import Any

import pytest

from aiorocketmq.remoting.protocol import fastjson
from aiorocketmq.remoting.protocol.bodies import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_filter import ConsumerFilterTable
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable, DelayOffsetTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable

from ..golden_files import golden_path

FILES = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": SubscriptionGroupTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
    "consumerFilter.json": ConsumerFilterTable,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    content = _member(f"config/{name}")
    kind: Any = FILES[name]
    typed = decode_body(kind, content)
    assert typed != kind()
    assert fastjson.dumps_pretty(typed).encode() == content


def _member(path: str) -> bytes:
    with tarfile.open(golden_path("store-clean-master.tar.gz")) as archive:
        (name,) = (name for name in archive.getnames() if name.endswith(path))
        file = archive.extractfile(name)
        assert file is not None
        return file.read()
