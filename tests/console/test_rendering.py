"""What all pages go through."""

from __future__ import annotations

import re
from types import SimpleNamespace

from aiorocketmq.console.cluster import TopicLook
from aiorocketmq.console.model.topics import PERMISSIONS, RouteRow, permission
from aiorocketmq.console.pages.topics import _wish
from aiorocketmq.console.rendering import Templates, environment, link, unturned
from aiorocketmq.console.site import Form


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


def test_who_changes_queues_does_not_change_the_permission() -> None:
    """It may be another one at each broker, and is left as it is unless somebody chooses."""
    rows = [RouteRow("a", "C", [(0, "a:1")], 4, 4, 4), RouteRow("b", "C", [(0, "b:1")], 4, 4, 6)]
    page = Templates(environment()).part(
        "topic.html", "main", topic="T", look=TopicLook(rows, (), (), (), ()), axis=None,
        permission=permission, permissions=PERMISSIONS, stored=0, rate=None, at_ms=0, problem=None,
    )  # fmt: skip
    _, _, form = page.partition('<select name="perm">')
    options = re.findall(r"<option ([^>]*)>([^<]*)", form)
    assert options[0] == ('value="" selected', "as it is")
    assert [name for _, name in options[1:]] == list(PERMISSIONS.values())
    assert not any("selected" in attributes for attributes, _ in options[1:])

    fields = [("read_queues", "8"), ("write_queues", "8"), ("perm", "")]
    wish = _wish(Form(fields))
    assert wish == {"read_queues": 8, "write_queues": 8, "perm": None}
    preview = Templates(environment()).part(
        "topic_change.html", "main", topic="T", changes=(), outcomes={},
        person=SimpleNamespace(may_change=True, csrf="c"), **wish,
    )  # fmt: skip
    assert '<input type="hidden" name="perm" value="">' in preview
