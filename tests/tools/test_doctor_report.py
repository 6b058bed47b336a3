"""What the doctor prints, as text and as JSON, whatever peers say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.tools.doctor.finding import Finding, Level, note, together, wrong
from aiorocketmq.tools.doctor.findings import findings, what_answers
from aiorocketmq.tools.doctor.report import Hider, as_json, as_text
from aiorocketmq.tools.doctor.seen import Broker, Kind, NameServer, Seen, Server, Speech, Trouble

from .doctor_world import info, route, runtime


def test_the_same_of_several_places_is_said_once() -> None:
    found = together(wrong(f"p{n}", "w", "d") for n in range(8))
    assert found == [Finding(Level.WRONG, "p0; p1; p2; p3; p4; and 3 more", "w", "d")]
    assert together([note("n", "n"), wrong("w", "w", ""), wrong("w", "w", "")]) == [
        wrong("w", "w", ""),
        note("n", "n"),
    ]


def test_a_report_hides_secrets_and_the_home() -> None:
    hide = Hider(("KEY", "KEYLONGER", ""), Path("/home/me"))
    found = [wrong("KEYLONGER", "in /home/me/x for KEY\nand\x1b[31m", "KEY")]
    shown = as_text("v", Seen(()), ["KEY"], found, hide)
    assert "KEY" not in shown
    assert "LONGER" not in shown
    assert "WRONG   ***: in ~/x for *** and\\x1b[31m" in shown
    assert shown.endswith(
        "1 wrong, 0 to know, 0 not seen. Nothing was changed, no message was read."
    )
    assert "KEY" not in as_json("v", Seen(()), ["KEY"], found, hide)


def test_the_whole_text() -> None:
    found = [wrong("w", "x", "do " * 40), note("n", "y")]
    hide = Hider((), Path("/"))
    lines = as_text("v", Seen((), tls=True, signed=True), ["a /b"], found, hide).splitlines()
    assert re.fullmatch(r"v, Python \S+, \w+; TLS, requests signed", lines[0])
    assert lines[1:] == [
        "",
        "answers a /b",
        "",
        "WRONG   w: x",
        "        -> " + " ".join(["do"] * 30),
        "           " + " ".join(["do"] * 10),
        "NOTE    n: y",
        "",
        "1 wrong, 1 to know, 0 not seen. Nothing was changed, no message was read.",
    ]
    first, empty, last = as_text("v", Seen(()), [], [], hide).splitlines()
    assert first.endswith("; plain, requests not signed")
    assert (empty, last[:7]) == ("", "0 wrong")


def test_the_whole_of_json() -> None:
    found = [wrong("w", "x", "do"), note("n", "y")]
    told = json.loads(as_json("v", Seen(()), ["a"], found, Hider((), None)))
    assert told.pop("platform").startswith("Python 3.")
    assert told == {
        "version": "v",
        "manner": "plain, requests not signed",
        "answers": ["a"],
        "findings": [
            {"level": "WRONG", "where": "w", "what": "x", "toDo": "do"},
            {"level": "NOTE", "where": "n", "what": "y", "toDo": ""},
        ],
    }


TEXTS = st.text(max_size=8) | st.sampled_from(
    ["0", "9" * 30, "[ 1 days, 2 hours, 3 minutes, 4 seconds ]", "127.0.0.1:1", "[::1]:2", "0.99"]
)
TROUBLES = st.builds(Trouble, st.sampled_from(Kind), TEXTS)
KEYS = st.sampled_from([*runtime(), "brokerName", "namesrvAddr", "raftRole"])
TABLES = st.dictionaries(KEYS, TEXTS) | TROUBLES | st.none()
SERVERS = st.builds(Server, TEXTS, TROUBLES | st.none(), st.sampled_from(Speech) | st.none())


@st.composite
def anything(draw: st.DrawFn) -> Seen:
    """Whatever peers say."""
    members = draw(st.lists(st.tuples(TEXTS, st.integers(-1, 2), TEXTS), max_size=4))

    def brokers() -> Iterator[Broker]:
        for name, number, address in members:
            server = draw(SERVERS)._replace(address=address)
            yield Broker("C", name, number, server, draw(TABLES), draw(TABLES), 0, 1)

    routes = st.just(route(("a", 4))) | TROUBLES | st.none()
    servers = st.builds(
        NameServer,
        SERVERS,
        st.integers(-1, 1 << 40),
        st.booleans(),
        st.just(info(*members)) | st.none(),
        routes,
        st.dictionaries(TEXTS, TEXTS, max_size=2),
    )
    return Seen(
        tuple(draw(st.lists(servers, max_size=3))),
        tuple(brokers()),
        topic=draw(st.none() | TEXTS),
        group=draw(st.none() | TEXTS),
    )


@settings(max_examples=settings().max_examples // 4)
@given(anything())
def test_whatever_peers_say_there_is_a_report(seen: Seen) -> None:
    found = findings(seen)
    text = as_text("v", seen, what_answers(seen), found, Hider((), None))
    assert all(each.what and each.where for each in found)
    assert all(c.isprintable() or c == "\n" for c in text)
    text = as_json("v", seen, what_answers(seen), found, Hider((), None))
    assert all(c.isprintable() or c == "\n" for c in text)
