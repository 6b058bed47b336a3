"""The ids that this process gives to its messages (client.md §3.9; class MessageClientIDSetter)."""

from __future__ import annotations

import ipaddress
import os
import random
import time

from ...daemon.local_address import local_address
from ...remoting.protocol.message.message_id import UniqIdGenerator

_generator: UniqIdGenerator | None = None


def next_message_id(now_ms: int) -> str:
    """A new id; no other process and no other machine makes the same one."""
    global _generator
    if _generator is None:
        ip = ipaddress.ip_address(local_address()).packed
        _generator = UniqIdGenerator(ip, os.getpid(), random.getrandbits(32), month_of)
    return _generator.next(now_ms)


def month_of(now_ms: int) -> tuple[int, int]:
    """When the month of that instant starts and when the next one does, in ms, by local time."""
    now = time.localtime(now_ms / 1000)
    return _first_of_month(now.tm_year, now.tm_mon), _first_of_month(now.tm_year, now.tm_mon + 1)


def _first_of_month(year: int, month: int) -> int:
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000  # month 13 is next January


def _forget() -> None:
    global _generator
    _generator = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # the pid is part of every id
