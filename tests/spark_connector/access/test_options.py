"""The options of the source."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.access.offsets import QueueValue
from aiorocketmq.spark_connector.access.options import (
    DEFAULT_GROUP,
    Position,
    PositionKind,
    SourceOptions,
    parse_source_options,
)

NEEDED = {"rocketmq.namesrv.addr": "ns:9876", "subscribe": "orders"}


def parsed(
    options: Mapping[str, str] | None = None, /, *, streaming: bool = False, **more: str
) -> SourceOptions:
    given = {**NEEDED, **(options or {}), **more}
    return parse_source_options(given, streaming=streaming, environment={})


def refused(options: dict[str, str], said: str, *, streaming: bool = False) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_source_options({**NEEDED, **options}, streaming=streaming, environment={})


def test_defaults_are_kafkas() -> None:
    options = parsed()
    assert options.topics == ("orders",)
    assert options.starting.kind is PositionKind.EARLIEST
    assert options.ending.kind is PositionKind.LATEST
    assert options.fail_on_data_loss
    assert options.max_trigger_delay_ms == 900_000
    assert (options.retries, options.retry_interval_ms, options.poll_timeout_ms) == (3, 10, 120_000)
    assert options.group == DEFAULT_GROUP
    assert parsed(streaming=True).starting.kind is PositionKind.LATEST


def test_the_documentation_names_every_option() -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(qqq="x")
    names = str(refused.value).partition("the options are ")[2].split(", ")
    assert len(names) > 50
    secrets = [
        name
        for name in names
        if name.removesuffix("File").removesuffix("Env") in names and name.endswith(("File", "Env"))
    ]
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    assert not [name for name in names if f"`{name}`" not in text and name not in secrets]


def test_name_servers_may_come_from_the_environment() -> None:
    options = parse_source_options(
        {"topic": "t"}, streaming=False, environment={"NAMESRV_ADDR": "a:1;b:2"}
    )
    assert options.connection.namesrv == ("a:1", "b:2")
    with pytest.raises(ConfigError, match="no name server is known: give the option"):
        parse_source_options({"topic": "t"}, streaming=False, environment={})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribePattern": "a.*"}, "exactly one of the options subscribe"),
        ({"subscribe": ""}, "exactly one of the options subscribe"),
        ({"subscribe": ","}, "names no topic"),
        ({"subscribe": "no topic"}, "illegal characters"),
        ({"subscribe": "", "subscribePattern": "("}, "no regular expression"),
        ({"subscribe": "", "assign": "{}"}, "names no queue"),
        ({"subscribe": "", "assign": '{"t": 5}'}, "must look like"),
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "would read nothing"),
        ({"startingOffsets": "soon"}, "must be earliest, latest, group or JSON"),
        ({"startingOffsets": "{"}, "is no JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "no whole number between -2"),
        ({"startingOffsets": '{"orders": {"x": 3}}'}, "no whole number"),
        ({"startingOffsets": "group"}, "add consumerGroup"),
        ({"commitOffsetsToGroup": "true"}, "add consumerGroup"),
        ({"commitOffsetsToGroup": "true", "groupIdPrefix": "p"}, "add consumerGroup"),
        ({"startingOffsets": "group", "groupIdPrefix": "p"}, "add consumerGroup"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        (
            {"startingTimestamp": "9000", "endingTimestamp": "9"},
            "9000. is after .*9",
        ),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "cannot be an end"),
        ({"subExpression": "||"}, "names no tag"),
        ({"subExpression": "sql: "}, "no expression behind sql"),
        (
            {"consumerGroup": "g", "groupIdPrefix": "p"},
            "either the option consumerGroup or groupIdPrefix",
        ),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "is above maxOffsetsPerTrigger",
        ),
        ({"arrowBatchBytes": "513m"}, "arrowBatchBytes must be a size .* at most 536870912 bytes"),
        ({"rocketmq.accessKey": "k"}, "both of the options"),
        ({"rocketmq.securityToken": "t"}, "securityToken belongs to"),
        ({"rocketmq.securityToken": "t", "rocketmq.keyFile": "/k"}, "securityToken belongs to"),
        ({"rocketmq.tls.client.certPath": "/x"}, "TLS is off"),
        ({"rocketmq.namespace": "a b"}, "a namespace has"),
        ({"rocketmq.namesrv.addr": "ns"}, "must look like host:9876"),
        ({"pullBatchSize": "5000"}, "from 1 to 4096"),
        ({"startingOffset": "5"}, "did you mean startingOffsets"),
        ({"startingOffsets": "2026-11-30 07:00"}, "a time is given with startingTimestamp"),
        ({"startingTimestamp": "2026-11-30"}, "in milliseconds since 1970, such as 17.*not '2026"),
        ({"startingTimestamp": "1700000000"}, "looks like seconds: give 1700000000000"),
        ({"endingTimestamp": "1700000000"}, "endingTimestamp is in milliseconds"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 1700000000}}'}, "looks like seconds"),
        ({"endingTimestamp": "1700000000123456"}, "looks like microseconds: give 1700000000123"),
        (
            {"endingOffsetsByTimestamp": '{"orders": {"0": 1700000000123456789}}'},
            "looks like nanoseconds: give 1700000000123",
        ),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, str], said: str) -> None:
    refused(given, said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nameServer": "ns:9876", "topik": "orders"}, "no option topik; did you mean topic"),
        ({"rocketmq.namesrv.adr": "ns:1", "topic": "t"}, "did you mean rocketmq.namesrv.addr"),
        (
            {"kafka.bootstrap.servers": "k:9092", "topic": "t"},
            "no option kafka.bootstrap.servers; name servers are given with rocketmq.namesrv.addr",
        ),
        ({"nameServer": "ns:9876", "path": "orders"}, "no option path; a topic has no path"),
        ({**NEEDED, "kafka.group.id": "g"}, "the group is given with consumerGroup"),
        ({**NEEDED, "includeHeaders": "true"}, "headers are properties here: includeProperties"),
    ],
)
def test_a_name_that_is_misspelt_is_told_before_what_is_missing_for_it(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_source_options(given, streaming=False, environment={})


def test_a_stream_has_no_end() -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        refused({name: "5"}, "a stream has no end", streaming=True)


def test_a_time_counts_more_than_times_and_those_more_than_offsets() -> None:
    offsets = '{"orders": {"a": {"0": 5}}}'
    values = (QueueValue("orders", "a", 0, 5),)
    one, two, three = "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"
    assert parsed({one: offsets}).starting == Position(PositionKind.OFFSETS, values, option=one)
    assert parsed({one: offsets, two: offsets}).starting == Position(
        PositionKind.TIMESTAMPS, values, option=two
    )
    assert parsed({one: offsets, two: offsets, three: "9"}).starting == Position(
        PositionKind.TIMESTAMP, timestamp_ms=9, option=three
    )


def test_the_last_time_of_all_is_never() -> None:
    assert parsed(endingTimestamp=str(2**63 - 1)).ending.timestamp_ms == 2**63 - 1


def test_assignments_and_expressions() -> None:
    options = parse_source_options(
        {"namesrv": "a:1", "assign": '{"t": {"b": [0, 1]}, "u": [2]}', "subExpression": "x || y"},
        streaming=False,
        environment={},
    )
    assert options.assigned == (
        QueueValue("t", "b", 0, 0),
        QueueValue("t", "b", 1, 0),
        QueueValue("u", None, 2, 0),
    )
    assert (options.tags, options.sql) == ("x || y", None)
    assert (parsed(subExpression="SQL: a > 3").tags, parsed(subExpression="sql:a > 3").sql) == (
        "*",
        "a > 3",
    )


def test_a_prefix_makes_a_group_of_its_own() -> None:
    one, two = parsed(groupIdPrefix="p").group, parsed(groupIdPrefix="p").group
    assert one != two
    assert one.startswith("p-")


def test_secrets_are_in_no_text_and_travel(tmp_path: Path) -> None:
    keys = tmp_path / "tools.yml"
    keys.write_text("accessKey: reader\nsecretKey: 12345678\n")
    for options in (
        parsed(
            {
                "rocketmq.accessKey": "reader",
                "rocketmq.secretKey": "12345678",
                "rocketmq.securityToken": "12345678",
            }
        ),
        parsed({"rocketmq.keyFile": str(keys)}),
        parsed({"rocketmq.tls.enable": "true", "rocketmq.tls.client.keyPassword": "12345678"}),
    ):
        assert "12345678" not in repr(options)
        assert "12345678" not in str(options.connection.credentials)
        assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(ConfigError) as failure:
        parsed({"rocketmq.secretKey": "12345678"})
    assert "12345678" not in str(failure.value)


def test_connections_are_shared_by_what_they_need() -> None:
    one, same, other = (
        parsed({"rocketmq.accessKey": key, "rocketmq.secretKey": "s"}).connection for key in "aab"
    )
    assert hash(one) == hash(same)
    assert one == same != other


def test_trusting_a_certificate_means_to_check_it() -> None:
    tls = parsed(
        {"rocketmq.tls.enable": "true", "rocketmq.tls.client.trustCertPath": "/ca.pem"}
    ).connection.tls
    assert tls is not None
    assert tls.client_auth_server
    assert parsed().connection.tls is None


def test_who_drops_duplicates_sees_all_rows() -> None:
    options = parsed(dropSparkDuplicates="true")
    assert (options.drop_spark_duplicates, options.max_partitions) == (True, 1)
    for name in ("minPartitions", "maxRecordsPerPartition", "maxPartitions"):
        with pytest.raises(ConfigError, match=r"in one task.*use drop_spark_duplicates\(frame\)"):
            parsed({"dropSparkDuplicates": "true", name: "2"})
        parsed({"dropSparkDuplicates": "false", name: "2"})
    with pytest.raises(ConfigError, match=r"later micro-batch; use drop_spark_duplicates"):
        parsed(streaming=True, dropSparkDuplicates="true")
