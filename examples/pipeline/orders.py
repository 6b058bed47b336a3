"""The inputs, all from a seed: orders, payments for most of them, some broken messages of each.

With them comes what a pipeline has to make of them (``Inputs.revenue``, ``Inputs.dead``), computed
in a few lines of plain Python that have nothing in common with the job.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from aiorocketmq import Message

from .topics import PAID_WITHIN, WINDOW, Topics

START: Final = datetime(2026, 5, 1, 10, tzinfo=UTC)
WAVE: Final = timedelta(minutes=5)
"""Event time of one wave. Inside of a wave anything may come first; queues are read at about the
same pace, so that rows are out of order by less than two waves, and ``LATENESS`` is three."""
CATEGORIES: Final = ("books", "games", "garden", "kitchen")
_LAST_PAYMENT: Final = timedelta(minutes=8)
_PAID: Final = 0.8
_DELAYED: Final = 0.03
_BROKEN: Final = 0.02

Row = dict[str, object]
Revenue = dict[str, tuple[int, int]]
"""Orders and cents by id, which is ``<begin of the window>/<category>``."""


class Inputs(NamedTuple):
    """What is sent, and what has to come of it."""

    waves: list[list[Message]]
    closing: list[Message]
    """An order and a payment an hour later: with them time goes on, and all windows close."""
    revenue: Revenue
    dead: dict[str, tuple[str, bytes]]
    """Reason and body of each broken message, by its key."""

    end: datetime
    """No order is as late as this."""

    def sent(self) -> list[Message]:
        return [message for wave in [*self.waves, self.closing] for message in wave]


def generate(topics: Topics, *, seed: int, waves: int, orders: int) -> Inputs:
    """``orders`` are sent in each wave; the same arguments give the same messages."""
    chance = random.Random(seed)
    sent: list[list[Message]] = [[] for _ in range(waves)]
    revenue: defaultdict[str, list[int]] = defaultdict(list)
    dead: dict[str, tuple[str, bytes]] = {}
    for number in range(1, waves * orders + 1):
        at = _moment(chance, START + (number - 1) // orders * WAVE, WAVE)
        order: Row = {
            "number": number, "at": _text(at), "category": chance.choice(CATEGORIES),
            "cents": chance.randint(100, 20_000),
        }  # fmt: skip
        _put(sent, at, _message(topics.orders, f"order-{number}", order, chance))
        paid_at = _moment(chance, at, _LAST_PAYMENT)
        if chance.random() < _PAID and paid_at < START + waves * WAVE:  # else: not paid yet
            payment: Row = {"number": number, "at": _text(paid_at), "method": "card"}
            _put(sent, paid_at, _message(topics.payments, f"payment-{number}", payment, chance))
            if paid_at <= at + PAID_WITHIN:
                revenue[_id(at, str(order["category"]))].append(int(str(order["cents"])))
        if chance.random() < _BROKEN:
            topic = chance.choice((topics.orders, topics.payments))
            body, reason = _broken(order, chance)
            message = Message(topic, body, tags="broken", keys=[f"broken-{number}"])
            _put(sent, at, message)
            dead[message.keys[0]] = reason, body
    for wave in sent:
        chance.shuffle(wave)
    later = _text(START + waves * WAVE + timedelta(hours=1))
    closing = [
        Message(topics.orders, _json({"number": 0, "at": later, "category": "none", "cents": 0})),
        Message(topics.payments, _json({"number": -1, "at": later, "method": "none"})),
    ]
    totals = {name: (len(cents), sum(cents)) for name, cents in revenue.items()}
    return Inputs(sent, closing, totals, dead, START + waves * WAVE)


def _message(topic: str, key: str, row: Row, chance: random.Random) -> Message:
    """Some come later than they were sent: level 1 is a second."""
    tags = str(row.get("category") or row.get("method"))
    level = 1 if chance.random() < _DELAYED else 0
    return Message(topic, _json(row), tags=tags, keys=[key], delay_level=level)


def _broken(order: Row, chance: random.Random) -> tuple[bytes, str]:
    """What producers get wrong, in fields that both topics have."""
    good = _json(order)
    return chance.choice(
        [
            (good[:-9], "is not JSON"),
            (good.replace(b'"category": "', b'"category": "\xe9'), "is not UTF-8"),
            (_json({**order, "number": "seven"}), "number is no bigint"),
            (_json({**order, "at": "yesterday"}), "at is no timestamp"),
            (_json({name: value for name, value in order.items() if name != "at"}),
             "at is missing"),
        ]
    )  # fmt: skip


def _put(waves: list[list[Message]], at: datetime, message: Message) -> None:
    waves[(at - START) // WAVE].append(message)


def _moment(chance: random.Random, since: datetime, within: timedelta) -> datetime:
    return since + timedelta(seconds=chance.randrange(int(within.total_seconds())))


def _id(at: datetime, category: str) -> str:
    begin = at - (at - START) % WINDOW
    return f"{begin:%Y-%m-%dT%H:%MZ}/{category}"


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _json(row: Row) -> bytes:
    return json.dumps(row).encode()
