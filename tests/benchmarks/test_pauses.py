"""What is told of a campaign's pauses."""

from __future__ import annotations

from pathlib import Path

from benchmarks.pauses import Pauses, Timeline

from ..sim import ManualClock

LOG = """\
2023-11-14T22:13:21.500+0000 INFO    broker.daemon broker ready name=b
  a line of a traceback
2023-11-14T22:13:21.600+0000 INFO    broker.topics topic made
2023-11-14T22:13:24.000+0000 INFO    broker.daemon broker ready name=b
"""


def test_the_three_longest_are_kept_with_what_failed_in_them() -> None:
    clock = ManualClock()
    pauses = Pauses(clock.monotonic)
    for seconds in (0.0, 2.0, 0.5, 3.0, 1.0):
        clock.advance(seconds)
        for _ in range(int(seconds)):
            pauses.failed("SendFailed")
        pauses.event()
    assert [(pause.seconds, dict(pause.failures)) for pause in pauses.longest] == [
        (3.0, {"SendFailed": 3}),
        (2.0, {"SendFailed": 2}),
        (1.0, {"SendFailed": 1}),
    ]


def test_what_the_campaign_waited_for_is_no_pause() -> None:
    clock = ManualClock()
    pauses = Pauses(clock.monotonic)
    pauses.event()
    clock.advance(60)
    pauses.failed("SendFailed")
    pauses.begin()
    clock.advance(2)
    pauses.event()
    assert [(pause.seconds, dict(pause.failures)) for pause in pauses.longest] == [(2.0, {})]


def test_a_pause_is_told_step_by_step(tmp_path: Path) -> None:
    clock = ManualClock()  # begins at 22:13:20
    (tmp_path / "log").write_text(LOG)
    timeline = Timeline(
        {"master": tmp_path / "log", "slave": tmp_path / "never started"},
        lambda: clock.time_ms() / 1000,
    )
    pauses = Pauses(lambda: clock.time_ms() / 1000)
    timeline.note("before")
    clock.advance(0.5)
    pauses.event()
    timeline.note("master is killed")
    clock.advance(2.0)
    pauses.failed("SendFailed")
    pauses.event()
    assert list(timeline.lines(pauses.longest[0], "sent again")) == [
        "     2.00 s from 2023-11-14 22:13:20.500+00:00:",
        "    +0.00   master is killed",
        "    +1.00   master: broker ready name=b",
        "    +2.00   sent again; in vain meanwhile: 1 SendFailed",
    ]
