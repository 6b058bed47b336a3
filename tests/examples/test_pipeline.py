"""The parts of ``examples/pipeline`` that need no Spark: its inputs, and what is read and drawn of
the progress."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

from examples.pipeline.driver import last_of, offsets, progress_of, taken_by
from examples.pipeline.orders import Inputs, generate
from examples.pipeline.plot import Band, plot
from examples.pipeline.topics import LATENESS, PAID_WITHIN, Topics

TOPICS = Topics.named("p-")


def made(seed: int = 1) -> Inputs:
    return generate(TOPICS, seed=seed, waves=14, orders=50)


def test_the_same_seed_gives_the_same_messages() -> None:
    assert made() == made()
    assert made() != made(seed=2)


def test_what_is_expected_is_what_the_messages_say() -> None:
    inputs = made()
    rows: dict[str, list[dict[str, object]]] = {TOPICS.orders: [], TOPICS.payments: []}
    for message in inputs.sent():
        if message.tags != "broken":
            rows[message.topic].append(json.loads(message.body))
    paid_at = {row["number"]: str(row["at"]) for row in rows[TOPICS.payments]}
    counts: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    for order in rows[TOPICS.orders]:
        at = datetime.fromisoformat(str(order["at"]))
        paid = paid_at.get(order["number"])
        if paid is not None and datetime.fromisoformat(paid) - at <= PAID_WITHIN:
            begin = at.replace(minute=at.minute // 5 * 5, second=0)
            name = f"{begin:%Y-%m-%dT%H:%MZ}/{order['category']}"
            counts[name] += 1
            cents[name] += int(str(order["cents"]))
    assert inputs.revenue == {name: (counts[name], cents[name]) for name in counts}
    assert 0 < len(counts) < len(paid_at) < len(rows[TOPICS.orders])


def test_there_are_broken_and_delayed_messages_of_both_topics() -> None:
    inputs = made()
    broken = {m.keys[0]: m for m in inputs.sent() if m.tags == "broken"}
    assert {key: message.body for key, message in broken.items()} == {
        key: body for key, (_, body) in inputs.dead.items()
    }
    assert {message.topic for message in broken.values()} == {TOPICS.orders, TOPICS.payments}
    assert len({reason for reason, _ in inputs.dead.values()}) == 5
    delayed = [message for message in inputs.sent() if message.delay_level]
    assert {message.topic for message in delayed} == {TOPICS.orders, TOPICS.payments}


def test_no_row_is_too_late() -> None:
    """Even when all of a wave is read in the opposite order, and the next one before it."""
    newest: dict[str, datetime] = {}
    waves = made().waves
    swapped = [wave for pair in zip(waves[1::2], waves[::2], strict=True) for wave in pair]
    for wave in swapped:
        for message in wave:
            if message.tags != "broken":
                at = datetime.fromisoformat(json.loads(message.body)["at"])
                newest[message.topic] = max(newest.get(message.topic, at), at)
                assert at > newest[message.topic] - LATENESS


def test_a_kill_may_leave_half_a_line(tmp_path: Path) -> None:
    assert progress_of(tmp_path) == []
    (tmp_path / "progress.jsonl").write_text('\n{"batchId": 0}\n{"batch\n{"batchId": 1}\n{"ba')
    assert progress_of(tmp_path) == [{"batchId": 0}, {"batchId": 1}]


def test_how_far_a_query_is() -> None:
    def batch(name: str, number: int) -> dict[str, object]:
        ends = [{topic: {"b": {"0": number, "1": 1}}} for topic in ("p", "q")]
        return {"name": name, "batchId": number, "sources": [{"endOffset": end} for end in ends]}

    progress = [batch("one", 3), batch("two", 4), batch("one", 5)]
    assert last_of(progress, "one") == progress[2]
    assert last_of(progress, "three") is None
    assert taken_by(progress, "two") == Counter(p=5, q=5)
    assert taken_by(progress, "three") == Counter()
    assert offsets({"startOffset": None}, "startOffset") == Counter()


def test_a_plot_is_xml_with_all_points_inside() -> None:
    drawn = plot(
        "a <title>", {"up": [(0, 0), (1, 5), (10, 40)], "down": [(5, 7)]}, [Band("gap", 2, 4)], 10
    )
    root = ElementTree.fromstring(drawn)
    _, _, width, height = map(int, root.attrib["viewBox"].split())
    lines = root.findall("polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 1, 1], "a gap is a gap"
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    assert "a <title>" in [text.text for text in root.findall("text")]
