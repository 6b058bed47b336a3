"""How many files and sockets this process may have open (``ulimit -n``), and how many of them may
be connections.

Every connection is a descriptor, and so is every file that the store opens. Who accepts connections
until there are none left stops the store: so an eighth of them, at least 256, is never given to
connections.
"""

from __future__ import annotations

import logging
from typing import Final

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

log: Final = logging.getLogger(__name__)

_LEAST_KEPT: Final = 256
"""Listening ports, slaves (64), scrapes (64), connections to others, files that are written without
their mapping (64), and what is opened for a moment. Each mapped file of the commit log has one,
too."""
_SHARE_KEPT: Final = 8
_WHERE_HARD_IS_INFINITE: Final = (1 << 20, 1 << 16, 10_240)
"""The system has a limit all the same: nr_open of Linux, OPEN_MAX of macOS."""


def raise_limit() -> None:
    """Have as many descriptors as this process may give itself: the soft limit becomes the hard
    one."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in _WHERE_HARD_IS_INFINITE if hard == resource.RLIM_INFINITY else (hard,):
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        return


def most_connections(descriptors: int) -> int:
    """How many of so many descriptors may be connections."""
    return max(1, descriptors - max(min(_LEAST_KEPT, descriptors // 2), descriptors // _SHARE_KEPT))


def allowed_connections(wanted: int, *, told: bool = True) -> int:
    """``maxConnections``, or less where the descriptors of this process do not suffice, which is
    ``told`` then."""
    if resource is None:
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or wanted <= (most := most_connections(soft)):
        return wanted
    needed = max(wanted + _LEAST_KEPT, -(-wanted * _SHARE_KEPT // (_SHARE_KEPT - 1)))
    log.log(
        # who needs them all is warned when they are reached
        logging.INFO if told else logging.DEBUG,
        "maxConnections=%d does not fit into %d open files: there will be %d connections at most, "
        "the other %d files are "
        "kept for the store; allow %d files (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= "
        "of docker), or set "
        "maxConnections", wanted, soft, most, soft - most, needed,
    )  # fmt: skip
    return most
