"""The files of ``config/`` as the original left them, read into types and written again."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_filter import ConsumerFilterTable
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.fastjson import writer as fastjson_writer

from ..golden_files import golden_member

FILES = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": SubscriptionGroupTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
    "consumerFilter.json": ConsumerFilterTable,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    content = golden_member("store-clean-master", f"master/config/{name}")
    kind: Any = FILES[name]
    typed = decode_body(kind, content)
    assert typed != kind()
    assert fastjson_writer.dumps_pretty(typed).encode() == content
