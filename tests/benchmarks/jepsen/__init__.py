"""``benchmarks.jepsen``: what is counted and drawn of a history, and which faults a cluster has."""
