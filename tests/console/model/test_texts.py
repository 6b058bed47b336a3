"""Numbers and times as people read and write them."""

from __future__ import annotations

import pytest

from aiorocketmq.console.model import texts


def test_numbers() -> None:
    assert [texts.count(each) for each in (None, 0, 12345)] == ["–", "0", "12,345"]
    assert [texts.rate(each) for each in (None, 0.0, 0.42, 1234.5)] == ["–", "0", "0.4", "1,234"]
    assert [texts.percent(each) for each in (None, -1.0, 0.285)] == ["–", "–", "28 %"]
    assert [texts.size(each) for each in (None, 5, 1536, 3 << 40)] == [
        "–", "5 B", "1.5 KiB", "3.0 TiB",
    ]  # fmt: skip


def test_times() -> None:
    assert texts.moment(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert texts.moment(0) == "–"
    assert texts.moment(1 << 62) == f"{1 << 62} ms"
    spans = (5, -2500, 120_000, 7_200_000, 3 * 86_400_000)
    assert [texts.span(each) for each in spans] == ["5 ms", "−2.5 s", "2 min", "2 h", "3 days"]


@pytest.mark.parametrize(
    "text",
    ["1700000000000", "2023-11-14 22:13:20", "2023-11-14T22:13:20", "2023-11-14 23:13:20+01:00",
     " 2023-11-14 22:13:20.000 UTC"],
)  # fmt: skip
def test_a_time_that_somebody_writes(text: str) -> None:
    assert texts.parse_moment(text) == 1_700_000_000_000


@pytest.mark.parametrize("text", ["", "soon", "2023-99-01", "9" * 30, "-5", "٣"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        texts.parse_moment(text)


def test_what_brokers_say() -> None:
    assert [texts.number(each) for each in ("1.5", "x", "", None, "nan", "inf")] == [
        1.5, None, None, None, None, None,
    ]  # fmt: skip
    assert texts.whole("7") == 7
