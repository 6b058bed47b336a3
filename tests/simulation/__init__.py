"""Whole clusters in one process, on virtual time, from one seed.

Name server, brokers with their stores, producers and consumers are the real ones; sockets, the disk
under the store, clocks, threads and randomness are replaced. ``loop.py`` is time and processes,
``threads.py`` what blocks, ``network.py`` connections, ``disk.py`` what a power failure leaves,
``machine.py`` a host, ``world.py`` the cluster, ``workload.py`` its clients, ``administering.py``
one more, ``journal.py`` what they saw, ``told.py`` what an administrator was told, ``habits.py``
what a seed does often, ``knobs.py`` constants and properties that it changes, ``faults.py`` what
goes wrong and ``schedule.py`` when. What must hold all the same: ``tables.py`` at any time, of what
an administrator was told; ``settling.py`` some seconds after everything is whole, each promise at
its time; ``invariants.py`` at the end, with ``copies.py`` of slaves and followers and ``reads.py``
of what is read in every way.

``python -m tests.simulation`` runs seeds (``make sim``), ``python -m tests.simulation.planted``
those that find defects of ``defects.py``, ``blind_defects.py`` and ``unseen_defects.py``;
``other_tests.py`` says whether other tests see them.

What is not simulated: tables of a broker lie on a real disk, where a replaced file is there at once
(``tests/fault`` tries the steps of that); a file that was deleted does not come back; a sector is
written as a whole; bits are flipped in bodies only, at one replica of several; a group's machines
keep their power (``tests/fault/test_member_power.py``); nobody measures memory but what ports hold.
"""
