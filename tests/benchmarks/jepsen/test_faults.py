"""Which faults a cluster can have."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

from benchmarks.jepsen.cluster import Cluster
from benchmarks.jepsen.faults import FAULTS, deck, possible
from benchmarks.jepsen.network import BROKERS, CLIENT, NAMESRV

EVERYBODY = (CLIENT, NAMESRV, *BROKERS)


def kinds(brokers: int, hosts: Iterable[str], *, small_disks: bool = True) -> set[str]:
    """Of a cluster whose ways between these hosts can be cut."""
    node = SimpleNamespace(disk=SimpleNamespace(can_be_full=small_disks))
    network = SimpleNamespace(ways=list(itertools.permutations(hosts, 2)))
    nodes = dict.fromkeys(BROKERS[:brokers], node)
    cluster = cast(Cluster, SimpleNamespace(nodes=nodes, network=network))
    return {fault.kind for fault in possible(cluster)}


def test_kinds_are_told_apart() -> None:
    assert len({fault.kind for fault in FAULTS}) == len(FAULTS)


ALL = {fault.kind for fault in FAULTS}


def test_pairs_and_groups_on_hosts_of_their_own_have_all_but_the_other_ones() -> None:
    assert ALL - kinds(2, EVERYBODY) == {f"master{sign}all slaves cut" for sign in "|<>"}
    assert ALL - kinds(3, EVERYBODY) == {"slave cut, master killed"}


def test_one_broker_has_no_slave() -> None:
    found = kinds(1, EVERYBODY)
    assert not any("slave" in kind or "all killed" in kind for kind in found)
    assert {"master killed", "client>master cut", "master isolated", "master disk full"} <= found


def test_without_hosts_only_ways_between_brokers_are_cut() -> None:
    found = kinds(3, BROKERS, small_disks=False)
    assert {"master>slave cut", "slave isolated"} <= found
    assert not any("client" in kind or "namesrv" in kind or "full" in kind for kind in found)
    assert not any("isolated" in kind or "cut" in kind for kind in kinds(1, BROKERS))


def test_each_comes_once_before_one_comes_again() -> None:
    faults = list(itertools.islice(deck(FAULTS, random.Random(1)), 2 * len(FAULTS)))
    for half in (faults[: len(FAULTS)], faults[len(FAULTS) :]):
        assert {each.kind for each in half} == {each.kind for each in FAULTS}
