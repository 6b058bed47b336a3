"""Live parts of a page are made again when what they show has changed."""

from __future__ import annotations

import asyncio
from typing import Any

from jinja2 import DictLoader, Environment

from aiorocketmq.console.rendering import Templates
from aiorocketmq.console.site import changing


def test_only_what_has_changed_is_made() -> None:
    page = "{% block age %}as of {{ at_ms }}{% endblock %}{% block rows %}{{ lag }}{% endblock %}"
    templates = Templates(Environment(loader=DictLoader({"x.html": page}), autoescape=True))
    found: dict[str, Any] = {}

    async def facts() -> dict[str, Any]:
        return dict(found)

    async def within() -> None:
        parts = changing(templates, facts, "x.html", ("age", "rows"))
        found.update(lag=[1], at_ms=10)
        assert await parts() == {"age": "as of 10", "rows": "[1]"}
        found.update(lag=[1], at_ms=20)
        assert await parts() == {"age": "as of 20"}
        found.update(lag=[2], at_ms=30, point="{}")
        assert await parts() == {"age": "as of 30", "rows": "[2]", "chart:lag": "{}"}
        found.update(point='{"at": 1}')
        assert await parts() == {"age": "as of 30", "chart:lag": '{"at": 1}'}

    asyncio.run(within())
