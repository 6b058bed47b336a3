"""Windows of one range, pulled side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.spark_connector.access.frame_buffer import Stretch, stretch_of
from aiorocketmq.spark_connector.source.pull_windows import Windows, cut_at

from ..stored_records import Stored, joined

FULL = 1000


@cache
def record(offset: int) -> bytes:
    return joined(Stored(queue_offset=offset))


def records(*offsets: int) -> bytes:
    return b"".join(map(record, offsets))


def body(*offsets: int) -> Stretch:
    """Records in the middle of a buffer."""
    data = records(*offsets)
    return Stretch(memoryview(b"before" + data + b"behind"), 6, 6 + len(data))


def octets(bodies: Sequence[Stretch]) -> bytes:
    return b"".join(each.view for each in bodies)


@given(st.data())
def test_everything_comes_out_once_and_in_order(data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, 50))
    until = begin + data.draw(st.integers(0, 200))
    windows = Windows(
        begin,
        until,
        count=data.draw(st.integers(1, 5)),
        pull=data.draw(st.integers(1, 10)),
        most=data.draw(st.integers(1, 30)),
        full_bytes=data.draw(st.sampled_from([1, 300, 1 << 20])),
        size=data.draw(st.integers(1, 40)),
        max_ahead_bytes=data.draw(st.sampled_from([0, 500, 1 << 20])),
    )
    under_way, taken = [], b""
    while not windows.done:
        under_way += windows.to_pull()
        assert under_way, "something can always be pulled"
        for window in data.draw(st.permutations(under_way)):
            what = data.draw(st.sampled_from(["answer", "answer", "wait", "lost", "later"]))
            if what == "answer":
                end = data.draw(st.integers(window.next_offset + 1, until + 5))
                windows.advance(window, end, body(*range(window.next_offset, end)))
                under_way.remove(window)
            elif what == "wait":
                windows.wait(window)
                under_way.remove(window)
                windows.wake()
            elif what == "lost":
                windows.lost()
                under_way.clear()
                break
        taken += octets(windows.take())
    assert taken == records(*range(begin, until))
    assert windows.position == until


def test_only_the_first_goes_on_when_too_much_is_ahead() -> None:
    windows = Windows(
        0, 100, count=2, pull=50, most=50, full_bytes=FULL, size=50, max_ahead_bytes=0
    )
    first, second = windows.to_pull()
    windows.advance(second, 60, body(*range(50, 60)))
    windows.advance(first, 10, body(*range(10)))
    assert windows.to_pull() == [first]
    assert octets(windows.take()) == records(*range(10))
    windows.advance(first, 50, body(*range(10, 50)))
    assert octets(windows.take()) == records(*range(60))[len(records(*range(10))) :]
    assert windows.to_pull() == [second]


def test_what_is_lost_is_left_out_and_counted() -> None:
    windows = Windows(
        0, 100, count=2, pull=20, most=20, full_bytes=FULL, size=20, max_ahead_bytes=1 << 20
    )
    first, second = windows.to_pull()
    assert windows.skip_to(30) == 30
    assert (first.done, second.next_offset, windows.position) == (True, 30, 20)
    windows.advance(second, 40)
    windows.wait(first)
    assert windows.take() == []
    assert windows.position == 40
    assert windows.skip_to(200) == 60
    assert windows.done


def test_windows_are_one_pull_long_while_answers_are_full() -> None:
    """Then answers come in order; short ones would leave a small rest to each window."""
    windows = Windows(
        0, 1000, count=2, pull=10, most=10, full_bytes=FULL, size=80, max_ahead_bytes=1 << 20
    )
    first, second = windows.to_pull()
    windows.advance(first, 10)
    windows.advance(second, 20)
    assert windows.take() == []
    first, second = windows.to_pull()
    assert (first.next_offset, first.until, second.until) == (20, 30, 40)
    windows.advance(second, 40)
    windows.advance(first, 23)
    windows.take()
    assert windows.to_pull() == [first]
    windows.advance(first, 30)  # all of the rest, which says nothing
    windows.take()
    first, second = windows.to_pull()
    assert (first.next_offset, first.until, second.until) == (40, 120, 200)
    windows.advance(first, 50)
    windows.advance(second, 200)
    windows.take()
    windows.to_pull()
    windows.advance(first, 120)
    windows.take()
    assert [window.until for window in windows.to_pull()] == [210, 220]


def test_pulls_are_as_long_as_an_answer_has_room_for() -> None:
    """However long messages are: what did not fit would have to be pulled by itself."""
    one = len(record(0))
    windows = Windows(
        0, 10_000, count=1, pull=4, most=100, full_bytes=20 * one, size=40, max_ahead_bytes=1 << 20
    )

    def pulled(messages: int, bytes_of_each: int = one) -> int:
        """How long the window is, of which the answer brings so many messages."""
        windows.take()
        (window,) = windows.to_pull()
        begin = window.next_offset
        windows.advance(window, begin + messages, stretch_of(bytes(messages * bytes_of_each)))
        return window.until - begin

    assert pulled(4) == 4
    assert pulled(20) == 20
    assert pulled(20, 2 * one) == 20  # they are twice as long from here on
    assert pulled(10, 2 * one) == 10
    assert pulled(10, one // 20) == 10
    assert pulled(80, 30 * one // 80) == 100  # more than an answer has room for
    assert pulled(20) == 20  # the rest of it
    assert pulled(5) == 20  # the broker has a limit of its own
    assert pulled(5) == 15


def test_an_answer_is_cut_where_the_next_window_begins() -> None:
    def cut(stretch: Stretch, until: int) -> bytes:
        return bytes(cut_at(stretch, until).view)

    assert cut(body(5, 6, 9, 12), 9) == records(5, 6)
    assert cut(body(5, 6), 9) == records(5, 6)
    assert cut(body(9), 9) == b""
    assert cut(stretch_of(bytes(100)), 5) == bytes(100), "what is no record is left to the decoder"
