from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.transport.flow import FlowControl, Limits

LIMITS = Limits(write_cut_bytes=1000, write_stall_s=60.0)


def test_a_peer_that_reads_nothing_is_cut_after_the_stall_time_and_not_before() -> None:
    flow = FlowControl(LIMITS)
    flow.stop(now=0.0)
    assert flow.stopped
    assert flow.verdict(500, now=0.0) is None
    assert flow.verdict(500, now=60.0) is None
    assert "read nothing for 61 s" in (flow.verdict(500, now=61.0) or "")


def test_a_slow_peer_is_not_cut() -> None:
    flow = FlowControl(LIMITS)
    flow.stop(now=0.0)
    for second in range(1, 900):
        assert flow.verdict(1000 - second, now=float(second)) is None


def test_a_peer_that_caught_up_starts_anew() -> None:
    flow = FlowControl(LIMITS)
    flow.stop(now=0.0)
    flow.resume()
    assert not flow.stopped
    assert flow.verdict(500, now=1000.0) is None
    flow.stop(now=1000.0)
    assert flow.verdict(500, now=1060.0) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stop", "resume", "check"]), st.integers(0, 2000), st.floats(0, 50)
        ),
        max_size=40,
    )
)
def test_too_many_bytes_are_always_cut_and_no_peer_outlives_its_stall(
    events: list[tuple[str, int, float]],
) -> None:
    flow, now, still_since, last = FlowControl(LIMITS), 0.0, None, 0
    for kind, buffered, passed in events:
        now += passed
        if kind == "stop":
            flow.stop(now)
            still_since = now if still_since is None else still_since
            last = 1 << 62 if still_since == now else last
        elif kind == "resume":
            flow.resume()
            still_since = None
        else:
            verdict = flow.verdict(buffered, now)
            assert (buffered > 1000) <= (verdict is not None)
            if still_since is None:
                assert (verdict is not None) == (buffered > 1000)
