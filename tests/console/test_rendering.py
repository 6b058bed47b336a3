"""What all pages go through."""

from __future__ import annotations

from aiorocketmq.console.rendering import Templates, environment, link, unturned


def test_nothing_is_read_backwards() -> None:
    """A name that a peer chose turns neither itself nor what stands beside it."""
    assert unturned("a\u202egpj.exe\u2066b") == "a\\u202egpj.exe\\u2066b"
    assert unturned("\u05e9\u05dc\u05d5\u05dd") == "\u05e9\u05dc\u05d5\u05dd"  # Hebrew is as it is
    page = Templates(environment()).render("error.html", title="T", text="\u202eliated")
    assert "\u202e" not in page
    assert "\\u202eliated" in page


def test_parts_of_pages_too() -> None:
    problems = Templates(environment()).part("topic.html", "age", at_ms=0, problem="\u202eno")
    assert problems.endswith("\\u202eno")


def test_a_link_keeps_every_character() -> None:
    assert link("/topic", name="\u202ex", q="") == "/topic?name=%E2%80%AEx"
