"""Links that are cut for a moment, under load: name server, master, slave and client on hosts of
their own.

The long version, with routes that expire, is ``make soak ONLY=soak_partition``.
"""

from __future__ import annotations

import re

import pytest

from .campaign import figures_of, run_campaign

NOT_ALLOWED = (
    "network namespaces are not allowed here",
    "the command ip cannot be run",
    "cannot enter the network",
)


def test_nothing_that_was_acknowledged_is_lost_when_links_are_cut() -> None:
    """Between master and slave, then between the client and the master."""
    done = run_campaign("soak_partition", "--short")
    if any(reason in done.stderr for reason in NOT_ALLOWED):
        pytest.skip(done.stderr.strip()[-200:])
    figures = figures_of(done)
    assert figures["acknowledged"] > 100
    assert figures["lost"] == 0
    assert len(re.findall(r"master 1.5 s:|slave 1.5 s:", done.stdout)) == 2
