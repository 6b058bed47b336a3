"""Hosts on this machine: network namespaces, a link of its own between any two of them (root, the
command ``ip``).

Links can be taken down (both ends see it), lose all that goes one way (nobody is told: frames go to
a hardware address that is nobody's), or be slow one way (a token bucket, ``tc``). Everything of a
network has this process's id in its name, and addresses are known in it alone: any number of them
stand side by side.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from examples.demo.errors import DemoError

PREFIX: Final = f"aiorocketmq-{os.getpid()}-"
_CLONE_NEWNET: Final = 0x40000000
_NOBODY: Final = "02:ff:ff:ff:ff:ff"
_BURST: Final = "16kb"
_LONGEST_QUEUE: Final = "3000ms"


class Network:
    """All of it."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        """``hosts``: addresses by name."""
        self.hosts = dict(hosts)
        self._numbers = {host: number for number, host in enumerate(hosts)}
        self._pairs = list(itertools.combinations(hosts, 2))

    @contextlib.contextmanager
    def built(self) -> Iterator[None]:
        """Raises ``DemoError`` when it is not allowed."""
        self._remove()
        try:
            for host, address in self.hosts.items():
                ip("netns", "add", PREFIX + host)
                ip("-n", PREFIX + host, "address", "add", f"{address}/32", "dev", "lo")
                ip("-n", PREFIX + host, "link", "set", "lo", "up")
            for number, (one, other) in enumerate(self._pairs):
                here = (f"v{number}", "address", self._hardware(one, other))
                there = (f"v{number}", "address", self._hardware(other, one))
                far = ("type", "veth", "peer", "name", *there, "netns", PREFIX + other)
                ip("-n", PREFIX + one, "link", "add", *here, *far)
                self.join(one, other)
            yield
        finally:
            self._remove()

    def join(self, one: str, other: str) -> None:
        """The link is up."""
        name = self._name(one, other)
        for host in (one, other):
            ip("-n", PREFIX + host, "link", "set", name, "up")
        for host, far in ((one, other), (other, one)):
            target = (f"{self.hosts[far]}/32", "dev", name, "src", self.hosts[host])
            ip("-n", PREFIX + host, "route", "replace", *target)
            self.open_way(host, far)

    def cut(self, one: str, other: str) -> None:
        """Nothing goes through; connections are not told."""
        ip("-n", PREFIX + one, "link", "set", self._name(one, other), "down")

    def close_way(self, source: str, target: str) -> None:
        """What goes that way is lost, and neither end is told."""
        self._neighbour(source, target, _NOBODY)

    def open_way(self, source: str, target: str) -> None:
        """As it was."""
        self._neighbour(source, target, self._hardware(target, source))

    def slow_way(self, source: str, target: str, bits_per_s: int) -> None:
        """So much goes that way, the rest waits, up to three seconds of it."""
        rate = ("rate", f"{bits_per_s}bit", "burst", _BURST, "latency", _LONGEST_QUEUE)
        _run("tc", "-n", *self._queue("replace", source, target), "tbf", *rate)

    def quick_way(self, source: str, target: str) -> None:
        """As it was."""
        _run("tc", "-n", *self._queue("del", source, target))

    def _queue(self, what: str, source: str, target: str) -> tuple[str, ...]:
        return PREFIX + source, "qdisc", what, "dev", self._name(source, target), "root"

    def _neighbour(self, source: str, target: str, hardware: str) -> None:
        place = (self.hosts[target], "lladdr", hardware, "dev", self._name(source, target))
        ip("-n", PREFIX + source, "neigh", "replace", *place, "nud", "permanent")

    def _hardware(self, host: str, far: str) -> str:
        """Of the end at ``host`` of its link to ``far``."""
        return f"02:00:00:00:{self._numbers[host]:02x}:{self._numbers[far]:02x}"

    def _name(self, one: str, other: str) -> str:
        wanted = {one, other}
        return f"v{next(n for n, pair in enumerate(self._pairs) if set(pair) == wanted)}"

    def _remove(self) -> None:
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", PREFIX + host], capture_output=True, check=False)


def prefix(host: str) -> tuple[str, ...]:
    """What stands in front of a command that is to run on it."""
    return "ip", "netns", "exec", PREFIX + host


def ip(*arguments: str) -> None:
    """Raises ``DemoError``."""
    _run("ip", *arguments)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise DemoError(f"the command {command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise DemoError(
            f"network namespaces are not allowed here: {' '.join(command)}: {done.stderr.strip()}"
        )


def enter(host: str) -> None:
    """This process and the threads that it starts are on that host from now on. Raises
    ``DemoError``."""
    descriptor = os.open(f"/var/run/netns/{PREFIX}{host}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise DemoError(
                f"cannot enter the network of {host}: {os.strerror(ctypes.get_errno())}"
            )
    finally:
        os.close(descriptor)
