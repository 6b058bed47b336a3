"""Whole clusters in one process, on virtual time, from one seed.

Name server, brokers with their stores, producers and consumers are the real ones; sockets, the disk
under the store, clocks, threads and randomness are replaced. ``loop.py`` is time and processes,
``threads.py`` what blocks, ``network.py`` connections, ``disk.py`` what a power failure leaves,
``world.py`` the cluster, ``workload.py`` its clients, ``journal.py`` what they saw, ``schedule.py``
what goes wrong, ``invariants.py`` what must hold all the same. ``python -m tests.simulation`` runs
seeds (``make sim``).

What is not simulated: tables of a broker lie on a real disk, where a replaced file is there at once
(``tests/fault`` tries the steps of that); files lose no names; nothing is flipped in what was
synced.
"""
