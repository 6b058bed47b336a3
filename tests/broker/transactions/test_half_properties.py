"""What is known of a half message when it comes is what is read of it when it ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.broker.transactions.half_properties import Destination, destination_of, to_store
from aiorocketmq.remoting.protocol.message.properties import (
    MessageError,
    decode_properties,
    tags_code_of,
)

NAMES = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "PGROUP", "REAL_TOPIC", "REAL_QID", "own"]
)
VALUES = st.sampled_from(["", "a", "true", "false", "3", "ü", "a b"])
PAIRS = st.one_of(
    st.tuples(NAMES, VALUES), st.tuples(st.just("DELAY"), st.sampled_from(["0", "3"]))
)
TEXTS = st.lists(PAIRS, max_size=5).map(lambda pairs: "\x02".join(f"{n}\x01{v}" for n, v in pairs))
FIRST = st.sampled_from(["UNIQ_KEY\x01k1\x02", "UNIQ_KEY\x01k2\x02", "UNIQ_KEY\x01\x02", ""])


def worked_out(raw: bytes) -> Destination:
    pairs = decode_properties(raw)
    return Destination(
        pairs.get("PGROUP", ""), pairs["REAL_TOPIC"], int(pairs["REAL_QID"]), "DELAY" in pairs,
        pairs.get("WAIT") != "false",
    )  # fmt: skip


@given(
    st.lists(st.tuples(FIRST, TEXTS, st.sampled_from(["T", "U"]), st.integers(0, 1)), max_size=8),
    TEXTS,
)
@settings(deadline=None)
def test_what_is_known_is_what_is_read(sent: list[tuple[str, str, str, int]], more: str) -> None:
    for first, text, topic, queue_id in [*sent, *((f, more, t, q) for f, _, t, q in sent)]:
        stored, tags_code, known = to_store(first + text, "C", topic, queue_id)
        pairs = decode_properties(stored)
        expected = decode_properties(first + text) | {
            "CLUSTER": "C",
            "REAL_TOPIC": topic,
            "REAL_QID": str(queue_id),
        }
        assert pairs == expected
        assert tags_code == tags_code_of(stored)
        destination = destination_of(stored)
        assert known == destination
        assert destination == worked_out(stored)
        assert (destination.topic, destination.queue_id) == (topic, queue_id)


@pytest.mark.parametrize("first", ["", "UNIQ_KEY\x01k\x02"])
def test_a_delay_level_that_is_no_number_is_refused_each_time(first: str) -> None:
    for _ in range(2):
        with pytest.raises(MessageError, match="number of a delay level, not 'soon'"):
            to_store(f"{first}DELAY\x01soon", "C", "T", 0)


def test_a_broken_queue_id_is_queue_0() -> None:
    for text in ("", "-1", "x", "9" * 12, "²"):
        destination = destination_of(f"REAL_TOPIC\x01T\x02REAL_QID\x01{text}".encode())
        assert destination[:3] == ("", "T", 0)
