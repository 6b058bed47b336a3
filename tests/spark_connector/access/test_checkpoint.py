"""What a checkpoint says of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access import offsets as first_form
from aiorocketmq.spark_connector.access.checkpoint import (
    Checkpoint,
    Mark,
    Origin,
    from_json,
    to_json,
)

from .test_offsets import OFFSETS, QUEUES

LONGS = st.integers(0, 2**63 - 1)
CHECKPOINTS = st.builds(
    Checkpoint,
    OFFSETS,
    st.none() | st.builds(Origin, LONGS, st.frozensets(st.sampled_from("abc"))),
    OFFSETS,
    st.dictionaries(QUEUES, st.builds(Mark, LONGS, LONGS, st.booleans())),
)
ONE, TWO = MessageQueue("t", "a", 0), MessageQueue("t", "b", 1)


@given(CHECKPOINTS)
def test_json_and_back(checkpoint: Checkpoint) -> None:
    text = json.dumps(to_json(checkpoint))
    assert from_json(json.loads(text)) == checkpoint
    turned = Checkpoint(
        dict(reversed(checkpoint.offsets.items())),
        checkpoint.origin,
        dict(reversed(checkpoint.begins.items())),
        dict(reversed(checkpoint.marks.items())),
    )
    assert json.dumps(to_json(turned)) == text, "Spark compares texts"


@given(OFFSETS)
def test_the_first_form_is_read_and_written_where_there_is_no_more(
    offsets: first_form.Offsets,
) -> None:
    old = first_form.to_json(offsets)
    assert from_json(old) == Checkpoint(offsets)
    assert to_json(Checkpoint(offsets)) == old


@given(CHECKPOINTS)
def test_a_version_that_knows_the_first_form_only_refuses_the_second(
    checkpoint: Checkpoint,
) -> None:
    table = to_json(checkpoint)
    if "#form" in table:
        with pytest.raises(ConfigError, match="a later version of aiorocketmq wrote this"):
            first_form.from_json(table)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"#form": "3: who knows"}, "of a form that this version does not know.*3: who knows"),
        ({"#form": 2}, "of a form"),
        ({"#more": {}}, "of a form"),
        ({"#origin": None}, "does not tell where the query began"),
        ({"#origin": {"time": 5, "brokers": [5]}}, "where the query began"),
        ({"#origin": {"time": -5, "brokers": []}}, "where the query began"),
        ({"#marks": {"t": {"a": {"0": -1}}}}, "no whole number"),
        ({"#gone": {"t": {"a": {"0": -1}}}}, "no whole number"),
        ({"#begins": []}, "must look like"),
        ({"t": 5}, "must look like"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_refused(change: dict[str, Any], said: str) -> None:
    table = to_json(Checkpoint({ONE: 5}, Origin(7, frozenset("a")), marks={ONE: Mark(4, 9)}))
    with pytest.raises(ConfigError, match=said):
        from_json({**table, **change})


def test_a_mark_says_when_its_message_was_stored_or_that_it_was_gone() -> None:
    """As a checkpoint has it that a version before this one wrote, and beside it what that one does
    not know, and refuses."""
    stored = to_json(Checkpoint({ONE: 5}, marks={ONE: Mark(4, 9)}))
    assert stored.keys() == {"#form", "#marks", "#stored", "t"}
    gone = to_json(Checkpoint({ONE: 5}, marks={ONE: Mark(4, 9, is_gone=True)}))
    assert gone.keys() == {"#form", "#marks", "#gone", "t"}
    assert gone["#gone"] == {"t": {"a": {"0": 9}}}


def test_where_a_batch_begins() -> None:
    end = Checkpoint({ONE: 9, TWO: 9}, begins={TWO: 3})
    assert end.starts({ONE: 5}) == {ONE: 5, TWO: 3}
    assert end.starts({ONE: 5, TWO: 50}) == {ONE: 5, TWO: 3}, "made anew"
