"""The cluster at a glance, what is wrong first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.topic_names import is_system_group
from ..cached import Cached
from ..cluster import ClusterView, Lags
from ..model.overview import Trouble
from ..rendering import link
from ..site import Form, Site

PATIENCE_S = 0.1
"""How long the page waits for what it can show without."""


def add_to(site: Site) -> None:
    site.live_page("/", "overview", facts, "age", "troubles", "servers", "brokers")


async def facts(view: ClusterView, _form: Form) -> dict[str, Any]:
    """What the page shows."""
    overview, lags = await asyncio.gather(view.overview.get(), soon(view.lags))
    troubles = list(overview.value.troubles)
    if overview.problem is not None:
        troubles.insert(0, Trouble("bad", f"What stands here is old: {overview.problem}"))
    if lags is not None:
        troubles += _deserted(lags)
    brokers = overview.value.brokers
    return {
        "overview": overview.value,
        "at_ms": overview.at_ms,
        "troubles": troubles,
        "groups_known": lags is not None,
        "put_rate": _sum([broker.put_rate for broker in brokers if not broker.copies]),
        "get_rate": _sum([broker.get_rate for broker in brokers]),
        "put_today": _sum([broker.put_today for broker in brokers if not broker.copies]),
        "behind": _behind(lags),
    }


async def soon(cached: Cached[Lags]) -> Lags | None:
    """What brokers have to look at every queue for: the page does not wait for it."""
    try:
        return (await cached.get(wait_s=PATIENCE_S)).value
    except RocketMQError:
        return None


def _deserted(lags: Lags) -> list[Trouble]:
    return [
        Trouble(
            "bad",
            f"The group {group} falls behind and nobody of it is connected: "
            f"{lags.by_group[group][0]:,} messages wait.",
            link("/group", name=group),
        )
        for group in lags.deserted
    ]


def _behind(lags: Lags | None) -> int | None:
    """Messages that wait for a group of users."""
    if lags is None or lags.known is None:
        return None
    return sum(
        max(0, lag) for group, (lag, _, _) in lags.known.items() if not is_system_group(group)
    )


def _sum(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None
