"""Lost, duplicated, unexpected, out of order: what the demo counts."""

from hypothesis import given
from hypothesis import strategies as st

from examples.demo.tally import Received, Sent, Verdict, judge

QUEUE = ("broker", 0)


def sent_rows(tags: dict[int, str | None]) -> Sent:
    sent = Sent()
    for row, tag in tags.items():
        sent.add(row, tag)
    return sent


def received_rows(*rows: int, tag: str | None = "x") -> Received:
    received = Received()
    for offset, row in enumerate(rows):
        received.add("A", row, tag, QUEUE, offset)
    return received


def test_all_there() -> None:
    sent = sent_rows({2: "x", 0: "x", 1: "x"})
    verdict = judge(sent, received_rows(0, 1, 2))
    assert verdict == Verdict(
        expected=3, lost=0, unexpected=0, unconfirmed=0, duplicated=0, out_of_order=0
    )
    assert verdict.good


def test_lost_duplicated_and_never_confirmed() -> None:
    verdict = judge(sent_rows({0: "x", 1: "x", 4: "x"}), received_rows(0, 0, 0, 3))
    assert verdict == Verdict(
        expected=3, lost=2, unexpected=0, unconfirmed=1, duplicated=2, out_of_order=0
    )
    assert not verdict.good


def test_duplicates_and_lost_answers_are_no_failure() -> None:
    assert judge(sent_rows({0: "x"}), received_rows(0, 1, 1)).good


def test_a_filter_lets_through_its_tag_and_nothing_else() -> None:
    sent = sent_rows({0: "x", 1: "y", 2: "x", 3: None})
    assert judge(sent, received_rows(0, 2), "x").good
    assert judge(sent, received_rows(0), "x").lost == 1
    leaking = received_rows(0, 2)
    leaking.add("A", 1, "y", QUEUE, 9)
    verdict = judge(sent, leaking, "x")
    assert (verdict.unexpected, verdict.lost, verdict.unconfirmed, verdict.good) == (1, 0, 0, False)


def test_order_is_that_of_each_queue_and_repeated_rows_do_not_break_it() -> None:
    received = Received()
    for row, queue_id, offset in [(0, 0, 0), (1, 1, 0), (2, 0, 1), (0, 0, 0), (3, 1, 7)]:
        received.add("A", row, "x", ("broker", queue_id), offset)
    assert received.out_of_order == 0
    received.add("A", 4, "x", ("broker", 1), 6)
    assert received.out_of_order == 1
    assert not judge(sent_rows(dict.fromkeys(range(5), "x")), received).good


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("AB"))), st.sets(st.integers(0, 40)))
def test_against_sets(arrivals: list[tuple[int, str]], confirmed: set[int]) -> None:
    received = Received()
    for row, consumer in arrivals:
        received.add(consumer, row, "x", QUEUE, 0)
    rows = [row for row, _ in arrivals]
    verdict = judge(sent_rows(dict.fromkeys(confirmed, "x")), received)
    assert verdict.lost == len(confirmed - set(rows))
    assert verdict.unconfirmed == len(set(rows) - confirmed)
    assert verdict.duplicated == len(rows) - len(set(rows))
    assert received.per_consumer == {
        c: n for c in "AB" if (n := sum(1 for _, who in arrivals if who == c))
    }
