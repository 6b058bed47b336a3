"""Which peers an address pattern of an ACL file means."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.acl.addresses import (
    _LIST_OR_COMMA,
    MAX_LENGTH,
    AddressPatternError,
    _patterns,
    address_pattern,
)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", "10.0.0.1", None),
        ("*.*.*.*", "fe80::1", None),
        ("*:*:*:*:*:*:*:*", "10.0.0.1", None),
        ("10.0.0.1", "10.0.0.1", "10.0.0.11"),
        ("10.0.0.{1,12}", "10.0.0.12", "10.0.0.2"),
        ("10.0.0.{1,4-6}", "10.0.0.5", "10.0.0.7"),
        ("10.0.0.1,10.0.0.2", "10.0.0.2", "10.0.0.3"),
        ("10.0.0.1, 10.1.*.{3,4}", "10.1.200.4", "10.1.200.5"),
        ("10.0.3-5.*", "10.0.4.255", "10.0.6.1"),
        ("10.0.0.0-9", "10.0.0.9", "10.0.0.10"),
        ("10.*.5.6", "10.9.5.6", "10.9.5.7"),
        ("fe80::7", "fe80:0:0:0:0:0:0:7", "fe80::8"),
        ("FE80:0:0:0:0:0:0:a", "fe80::A", "fe80::b"),
        ("fe80::a-f", "fe80::c", "fe80::10"),
        ("fe80:1::{a,b}", "fe80:1::b", "fe80:1::c"),
        ("5::7:6:1-200:*", "5::7:6:1f0:9", "5::7:6:201:9"),
        ("::1", "::1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "::1"),
    ],
)
def test_patterns(pattern: str, inside: str, outside: str | None) -> None:
    matches = address_pattern(pattern)
    assert matches(inside)
    assert outside is None or not matches(outside)


@pytest.mark.parametrize("pattern", ["", "  ", None])
def test_nothing_means_nobody(pattern: str | None) -> None:
    assert not address_pattern(pattern)("127.0.0.1")


@pytest.mark.parametrize(
    "pattern",
    ["10.0.0", "10.0.0.256", "10.0.0.5-3", "10.0.0.-1", "10.0.0.x", "10.0.0.{}", "10.0.0.1,",
    "*,10.0.0.1", "1:2:3", "::g",
     "host.name.of.mine", "10.0.0.+1", "10.0.0.1_0", "1::2::3", "10.0.0.1/8", "0x0a.0.0.1"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(AddressPatternError):
        address_pattern(pattern)


def test_a_peer_without_an_address_matches_nothing() -> None:
    assert not address_pattern("10.0.0.*")("unknown")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,{2,3},4", ["1", "{2,3}", "4"]),
        ("{1,2", ["{1", "2"]),
        ("{{1,2},3", ["{{1,2}", "3"]),
        (",", ["", ""]),
    ],
)
def test_commas_in_lists_divide_no_patterns(text: str, parts: list[str]) -> None:
    assert list(_patterns(text)) == parts


def test_nothing_is_looked_for_ahead() -> None:
    """From every comma to the end, that was: half a second for the longest text."""
    assert "(?" not in _LIST_OR_COMMA.pattern
    assert len(list(_patterns("," * MAX_LENGTH))) == MAX_LENGTH + 1
