"""The way of a message, from copies, groups and traces."""

from __future__ import annotations

from aiorocketmq.client.admin import MessageTrack, Traced, TrackType
from aiorocketmq.client.producer.hooks import MessageKind
from aiorocketmq.client.producer.trace_records import (
    Consumed,
    ConsumeOutcome,
    Consuming,
    Published,
    TransactionEnded,
)
from aiorocketmq.console.model.journey import (
    Copies,
    bars_of,
    group_of,
    origin_topic,
    spans_of,
    steps_of,
)

from ..messages import BORN_MS, message

NOTHING = Copies([], {}, {}, [], [])


def test_two_retries_into_the_dead_letter_queue_and_back() -> None:
    copies = Copies(
        [message(at_ms=BORN_MS + 5)],
        {
            "g": [
                message("%RETRY%g", at_ms=BORN_MS + 70, reconsume_times=0),
                message("%RETRY%g", at_ms=BORN_MS + 10, reconsume_times=1),
                message("%RETRY%g", at_ms=BORN_MS + 30, reconsume_times=2),
            ]
        },
        {"g": [message("%DLQ%g", at_ms=BORN_MS + 60, reconsume_times=3)]},
        [],
        [],
    )
    steps = steps_of(copies, [MessageTrack("other", TrackType.NOT_CONSUME_YET)], [])
    assert [step.title for step in steps] == [
        "Stored",
        "Retry 1 for g",
        "Retry 2 for g",
        "Dead letter of g",
        "Sent again to g alone",
        "other has not come to it yet",
    ]
    assert "Orders, queue 0, offset 0, at 10.0.0.1:10911" in steps[0].text


def test_a_transaction() -> None:
    halves = [
        message("RMQ_SYS_TRANS_HALF_TOPIC", at_ms=BORN_MS + 1, PGROUP="payers"),
        message("RMQ_SYS_TRANS_HALF_TOPIC", at_ms=BORN_MS + 9, TRANSACTION_CHECK_TIMES="1"),
    ]
    ended = TransactionEnded(
        BORN_MS + 20, "", "payers", "Orders", "ID1", None, None, "", MessageKind.NORMAL, "ID1",
        "COMMIT_MESSAGE", True,
    )  # fmt: skip
    copies = NOTHING._replace(stored=[message(at_ms=BORN_MS + 21)], halves=halves)
    steps = steps_of(copies, [], [Traced(ended, "10.0.0.9")])
    assert [step.title for step in steps] == [
        "Half message stored",
        "The producer was asked, check 1",
        "The transaction ended: committed",
        "Stored",
    ]
    assert "payers" in steps[0].text
    assert "when it was asked" in steps[2].text


def test_a_transaction_that_was_given_up() -> None:
    copies = NOTHING._replace(given_up=[message("TRANS_CHECK_MAX_TIME_TOPIC")])
    assert steps_of(copies, [], [])[0].title == "The transaction was given up"


def test_a_send_that_was_repeated_and_a_delay() -> None:
    stored = [message(at_ms=BORN_MS + 10_000, DELAY="3"), message(at_ms=BORN_MS + 10_001)]
    steps = steps_of(NOTHING._replace(stored=stored), [], [])
    assert "10.0 s after it was sent" in steps[0].text
    assert steps[1].title == "Stored again (2 times with one id)"


def test_the_topic_it_was_sent_to() -> None:
    assert origin_topic(message()) == "Orders"
    assert origin_topic(message("%DLQ%g", RETRY_TOPIC="Orders")) == "Orders"
    assert origin_topic(message("%RETRY%g")) == "%RETRY%g"
    delayed = message("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="%RETRY%g", RETRY_TOPIC="Orders")
    assert origin_topic(delayed) == "Orders"
    assert origin_topic(message("RMQ_SYS_TRANS_HALF_TOPIC", REAL_TOPIC="Orders")) == "Orders"


def test_whose_copy_it_is() -> None:
    assert group_of(message("%DLQ%g")) == "g"
    assert group_of(message("%RETRY%g")) == "g"
    assert group_of(message()) is None


TRACES = [
    Traced(
        Published(BORN_MS, "", "p", "Orders", "ID1", None, None, "", 5, 40, MessageKind.NORMAL, "",
                  True),
        "10.0.0.9",
    ),
    Traced(Consuming(BORN_MS + 100, "", "g", "r1", "ID1", 0, None), "10.0.0.8"),
    Traced(Consumed("r1", "ID1", 50, False, None, ConsumeOutcome.EXCEPTION), "10.0.0.8"),
    Traced(Consuming(BORN_MS + 200, "", "g", "r2", "ID1", 1, None), "10.0.0.8"),
    Traced(
        Consumed("r3", "ID1", 20, True, None, ConsumeOutcome.SUCCESS, BORN_MS + 420, "other"),
        "10.0.0.7",
    ),
]  # fmt: skip


def test_spans_have_a_beginning_and_an_end() -> None:
    spans = spans_of(TRACES)
    assert [(each.at_ms - BORN_MS, each.cost_ms, each.title, each.good) for each in spans] == [
        (0, 40, "sent", True),
        (100, 50, "consumption failed: exception", False),
        (200, None, "consuming, end not told", True),
        (400, 20, "consumed", True),
    ]
    assert spans[2].who == "g at 10.0.0.8, retry 1"
    assert spans[3].who == "other at 10.0.0.7"


def test_bars_share_an_axis() -> None:
    bars = bars_of(spans_of(TRACES))
    assert [(bar.begin, bar.width) for bar in bars] == [(0, 95), (238, 119), (476, 4), (952, 47)]
    assert bars_of([]) == []


def test_all_at_once() -> None:
    (bar,) = bars_of(spans_of(TRACES[3:4]))
    assert (bar.begin, bar.width) == (0, 4)
