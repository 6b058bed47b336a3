"""Whole clusters in one process, on virtual time, from one seed.

Name server, brokers with their stores, producers and consumers are the real ones; sockets, the disk
under the store, clocks, threads and randomness are replaced. ``loop.py`` is time and processes,
``network.py`` connections, ``disk.py`` what a power failure leaves, ``world.py`` the cluster,
``workload.py`` its clients, ``schedule.py`` what goes wrong, ``invariants.py`` what must hold all
the same. ``python -m tests.simulation`` runs seeds (``make sim``).

What is not simulated yet: tables of a broker lie on a real disk (a kill keeps them, and so does a
power failure); connections of threads, by which a slave has damaged records mended (so slaves lose
no power); transactions, delays, resets, topics that come and go; disks that fail with an errno or
lose names (``tests/fault`` does); a network that reorders within a connection never exists.
"""
