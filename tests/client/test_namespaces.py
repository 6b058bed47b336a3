"""Names with and without a namespace (client.md §7.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.namespaces import (
    checked_namespace,
    namespace_of_address,
    unwrap_queue,
    with_namespace,
    without_namespace,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

NAMES = st.text("abcXYZ019_-|", min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("name", "in_cluster"),
    [
        ("Order", "shop%Order"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("shop%Order", "shop%Order"),
        ("%RETRY%shop%billing", "%RETRY%shop%billing"),
        ("shopOrder", "shop%shopOrder"),
        ("other%Order", "shop%other%Order"),
        ("TBW102", "TBW102"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_TRACE_DATA_x", "rmq_sys_TRACE_DATA_x"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("", ""),
    ],
)
def test_names_in_the_cluster(name: str, in_cluster: str) -> None:
    assert with_namespace(name, "shop") == in_cluster
    assert with_namespace(name, None) == name


@given(NAMES, NAMES, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_there_and_back(namespace: str, bare: str, prefix: str) -> None:
    name = prefix + bare
    wrapped = with_namespace(name, namespace)
    assert without_namespace(wrapped, namespace) == name
    assert with_namespace(wrapped, namespace) == wrapped


def test_names_of_others_stay() -> None:
    assert without_namespace("other%Order", "shop") == "other%Order"
    assert without_namespace("shop%Order", None) == "shop%Order"
    assert unwrap_queue(MessageQueue("shop%T", "b", 1), "shop") == MessageQueue("T", "b", 1)


@pytest.mark.parametrize("namespace", ["", "a%b", "a b", "x" * 101])
def test_namespaces_that_cannot_be_used(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        checked_namespace(namespace)


@pytest.mark.parametrize(
    ("address", "namespace"),
    [
        ("http://MQ_INST_12_ab.mq.example.com:80", "MQ_INST_12_ab"),
        ("MQ_INST_12_ab.mq.example.com:80", "MQ_INST_12_ab"),
        ("10.0.0.1:9876", None),
        ("http://mq.example.com:80", None),
    ],
)
def test_an_address_may_tell_the_namespace(address: str, namespace: str | None) -> None:
    assert namespace_of_address(address) == namespace


@pytest.mark.parametrize("middle", ["_" * 5000, "a_" * 2000, "a" * 5000])
def test_a_long_name_of_an_instance(middle: str) -> None:
    assert namespace_of_address(f"MQ_INST_{middle}") is None
    found = namespace_of_address(f"MQ_INST_{middle}_1.host:80")
    assert found == f"MQ_INST_{middle}_1"
