"""Templates. Everything that goes into one is escaped: what stands in a message is text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .model import texts

FOLDER: Final = Path(__file__).parent


def link(path: str, **query: object) -> str:
    """``/topic?name=%25RETRY%25g``; what is ``None`` or empty is left out."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def environment() -> Environment:
    """With the filters that pages use."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        count=texts.count,
        rate=texts.rate,
        percent=texts.percent,
        size=texts.size,
        moment=texts.moment,
        span=texts.span,
    )
    made.globals["link"] = link
    made.globals["ui"] = made.get_template("macros.html").module  # for parts of pages, too
    return made


_TURNING: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What turns the direction in which a text is read, up to its end and beyond what it stands in."""


def unturned(text: str) -> str:
    """With those characters told, not obeyed: a name shows what it is, and nothing beside it is
    read backwards."""
    for each in _TURNING:
        if each in text:
            text = text.replace(each, f"\\u{ord(each):04x}")
    return text


class Templates:
    """Renders a page, or a part of one."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def render(self, name: str, **context: Any) -> str:
        return unturned(self._environment.get_template(name).render(**context))

    def part(self, name: str, block: str, **context: Any) -> str:
        """One block of a template: what a live page gets again."""
        template = self._environment.get_template(name)
        made = template.new_context(context)
        return unturned("".join(template.blocks[block](made)))
