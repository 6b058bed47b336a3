"""Whole clusters in one process, on virtual time, from one seed.

Name server, brokers with their stores, producers and consumers are the real ones; sockets, the disk
under the store, clocks, threads and randomness are replaced. ``loop.py`` is time and processes,
``threads.py`` what blocks, ``network.py`` connections, ``disk.py`` what a power failure leaves,
``machine.py`` a host, ``world.py`` the cluster, ``workload.py`` its clients, ``administering.py``
one more, ``journal.py`` what they saw, ``told.py`` what an administrator was told, ``habits.py``
what a seed does often, ``knobs.py`` constants and properties that it changes, ``faults.py`` what
goes wrong (``program_faults.py`` with programs, ``disk_faults.py`` with disks) and ``schedule.py``
when. What must hold all the same: ``tables.py`` at any time, of what an administrator was told;
``settling.py`` some seconds after everything is whole, each promise at its time; ``invariants.py``
at the end, with ``copies.py`` of slaves and followers and ``reads.py`` of what is read in every
way. ``test_judge.py`` tries what they let be.

``python -m tests.simulation`` runs seeds (``make sim``): ``seeds.py`` one of them, a good place to
begin to read, ``campaign.py`` many. ``python -m tests.simulation.planted`` runs those that find
the defects in ``planted``; ``other_tests.py`` says whether other tests see them. ``idle.py``
measures a cluster that nobody uses.

What is not simulated: tables of a broker lie on a real disk, where a replaced file is there at once
(``tests/fault`` tries the steps of that); a file that was deleted does not come back; a sector is
written as a whole; bits are flipped at one replica of several; of the files that a start makes
again from the log at most two are damaged at a time, and those of the index never
(``tests/fault/test_derived_files.py``); of a group's machines one loses its power at a time, and
all members have all then; nobody measures memory but what ports hold.
"""
