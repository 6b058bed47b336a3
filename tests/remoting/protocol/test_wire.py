import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.wire import (
    FieldError,
    Record,
    fields_of,
    from_fields,
    i32,
    i64,
    to_fields,
)


class Sample(Record, frozen=True, kw_only=True):
    consumer_group: str
    queue_id: i32
    queue_offset: i64 = -1
    unit_mode: bool = False
    order: bool | None = None
    max_reconsume_times: i32 | None = None
    ratio: float = 0.0


def test_names_kinds_and_presence() -> None:
    sample = Sample(consumer_group="g", queue_id=3)
    assert to_fields(sample) == {
        "consumerGroup": "g",
        "queueId": "3",
        "queueOffset": "-1",
        "unitMode": "false",
        "ratio": "0.0",
    }
    assert [f.wire_name for f in fields_of(Sample) if f.required] == ["consumerGroup", "queueId"]


@given(st.builds(Sample, consumer_group=st.text(), queue_id=st.integers(-(2**31), 2**31 - 1)))
def test_round_trip(sample: Sample) -> None:
    assert from_fields(Sample, to_fields(sample)) == sample


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TRUE", True),
        ("true", True),
        ("tRue", True),
        ("1", False),
        ("yes", False),
        ("", False),
        (True, True),
    ],
)
def test_a_boolean_is_true_only_when_it_says_so(text: object, value: bool) -> None:
    assert (
        from_fields(Sample, {"consumerGroup": "g", "queueId": "0", "unitMode": text}).unit_mode
        is value
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("+7", 7), ("007", 7), ("-7", -7), (7, 7), ("7.0", 7), ("7e1", 70)],
)
def test_numbers(text: object, value: int) -> None:
    assert from_fields(Sample, {"consumerGroup": "g", "queueId": text}).queue_id == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 7",
        "7 ",
        "seven",
        "0x7",
        "1.5",
        "2147483648",
        "-2147483649",
        "9" * 500,
        "1e400",
        "NaN",
        "1_0",
    ],
)
def test_what_is_no_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(FieldError, match="queueId") as caught:
        from_fields(Sample, {"consumerGroup": "g", "queueId": text})
    assert caught.value.field == "queueId"


@pytest.mark.parametrize("fields", [{}, {"queueId": "1"}, {"consumerGroup": None, "queueId": "1"}])
def test_a_required_field_that_is_missing_is_refused_by_name(fields: dict[str, str]) -> None:
    with pytest.raises(FieldError, match="'consumerGroup' is missing"):
        from_fields(Sample, fields)


def test_records_are_shown_without_the_python_of_enumerations() -> None:
    """They stand in log lines, and in remarks that clients in other languages print."""
    shown = repr(TopicConfig(topic_name="T", order=True))
    assert shown == str(TopicConfig(topic_name="T", order=True))
    assert "topic_name='T'" in shown
    assert "topic_filter_type=SINGLE_TAG" in shown
    assert "<" not in shown
