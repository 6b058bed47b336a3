"""The picture of the README: what is drawn of what a terminal shows. ``e2e/test_docs.py`` records
it once more."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from ..pages import REPOSITORY, loaded

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    return loaded("picture")


def words(picture: ModuleType, output: str) -> list[tuple[str | None, str | None, int]]:
    """Class, text and line of all that is drawn for a command that printed this."""
    root = ET.fromstring(picture.drawn([picture.Shown("x", output, 1.0)]))
    found = list(root.iter(f"{SVG}text"))[2:]
    first = int(found[0].attrib["y"])
    return [
        (each.get("class"), each.text, (int(each.attrib["y"]) - first) // picture._LINE)
        for each in found
    ]


def test_text_is_escaped_and_stands_at_its_column(picture: ModuleType) -> None:
    drawn = picture.drawn([picture.Shown("a & b > c", "<x>  & y\r\n", 1.0)])
    root = ET.fromstring(drawn)
    texts = [(each.text, each.attrib["x"]) for each in root.iter(f"{SVG}text")]
    assert texts == [("$", "20.0"), ("a & b > c", "35.6"), ("<x>", "20.0"), ("& y", "59.0")]


def test_headings_and_what_went_wrong_have_colours(picture: ModuleType) -> None:
    output = "\x1b[1;36mTopic   QID\x1b[0m\r\nOrders    0\r\nmqadmin topicStatus: no\r\n"
    assert words(picture, output) == [
        ("heading", "Topic", 0),
        ("heading", "QID", 0),
        (None, "Orders", 1),
        (None, "0", 1),
        ("error", "mqadmin topicStatus: no", 2),
    ]


def test_progress_that_was_wiped_out_is_not_drawn(picture: ModuleType) -> None:
    assert words(picture, "\r\x1b[K1 of 2\r\x1b[K2 of 2\r\x1b[Kdone\r\n") == [(None, "done", 0)]


def test_a_long_line_goes_on_in_the_next_one(picture: ModuleType) -> None:
    columns = picture.COLUMNS
    assert words(picture, "x" * columns + "yy\r\n") == [(None, "x" * columns, 0), (None, "yy", 1)]


def test_the_picture_stands_at_the_top_and_needs_nothing_else(picture: ModuleType) -> None:
    text = picture.PICTURE.read_text("utf-8")
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"href|url\(|<script|<image|@import|@font-face", text)
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 20_000
    top = (REPOSITORY / "README.md").read_text("utf-8").partition("\n## ")[0]
    assert re.search(r"!\[[^\]]{40,}\]\(docs/picture\.svg\)", top)
