"""What a check does with an undecided half message: how often its producer is asked, from when on,
and when it is given up (class TransactionalMessageServiceImpl; ``broker-services.md`` §5.4). Pure.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.record.decode import MessageExt


class Half(NamedTuple):
    """What a check has to know of a half message."""

    check_times: int
    born_timestamp: int
    store_timestamp: int
    immunity_ms: int | None
    """How long the producer does not want to be asked (CHECK_IMMUNITY_TIME_IN_SECONDS); ``None``:
    as everybody."""
    prepared_offset: int | None
    """The number that the producer was told; ``None``: its own."""


class Verdict(enum.Enum):
    """What a check does with an undecided half message."""

    STOP = enum.auto()
    """It is too young, and so are all behind it: the round ends."""
    ASK = enum.auto()
    KEEP = enum.auto()
    """Its producer does not want to be asked yet: a copy is put behind all others."""
    GIVE_UP = enum.auto()
    """Into TRANS_CHECK_MAX_TIME_TOPIC."""


class CheckRules(NamedTuple):
    """The configuration of checks."""

    timeout_ms: int
    """transactionTimeOut: younger ones are not asked for."""
    max_checks: int
    """transactionCheckMax"""
    keep_ms: int
    """fileReservedTime: what is older is about to expire."""


def facts_of(message: MessageExt) -> Half:
    """Read them from a half message. What is no number counts as not said."""
    properties = message.properties
    seconds = _number(properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS))
    prepared = _number(properties.get(PropertyName.TRAN_PREPARED_QUEUE_OFFSET))
    return Half(
        check_times=_number(properties.get(PropertyName.TRANSACTION_CHECK_TIMES)) or 0,
        born_timestamp=message.born_timestamp,
        store_timestamp=message.store_timestamp,
        immunity_ms=None if seconds is None or seconds == -1 else seconds * 1000,
        prepared_offset=None if prepared == -1 else prepared,
    )


def judge(half: Half, rules: CheckRules, now_ms: int, round_began_ms: int) -> Verdict:
    """What to do with an undecided half message now."""
    age = now_ms - half.born_timestamp
    if half.check_times >= rules.max_checks or age > rules.keep_ms:
        return Verdict.GIVE_UP
    if round_began_ms <= half.store_timestamp <= now_ms:  # later: the clock was set back
        return Verdict.STOP
    if half.immunity_ms is not None:
        return Verdict.KEEP if age < half.immunity_ms else Verdict.ASK
    if 0 <= age < rules.timeout_ms:  # one born in the future is asked for: a clock is wrong
        return Verdict.STOP
    return Verdict.ASK


def asked_once_more(half: Half) -> dict[str, str]:
    """The properties that a copy gets when the producer is asked."""
    return {PropertyName.TRANSACTION_CHECK_TIMES: str(half.check_times + 1)}


def kept_for_later(half: Half, number: int) -> dict[str, str]:
    """The properties that a copy gets when the producer is left alone: it will speak of the first
    number."""
    first = number if half.prepared_offset is None else half.prepared_offset
    return {PropertyName.TRAN_PREPARED_QUEUE_OFFSET: str(first)}


def _number(text: str | None) -> int | None:
    if (
        text is None
        or len(text) > 19
        or not text.removeprefix("-").isdecimal()
        or not text.isascii()
    ):
        return None
    return int(text)
