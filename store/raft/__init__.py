"""One member of a DLedger group without I/O: elections, replication, commit, transfer (Raft as the
original speaks it, ``dledger.md`` §3).

Requests of peers, their answers and the time go in; requests, answers and what has to be made
durable first come out. Imports ``remoting.protocol.bodies.dledger`` and the store's errors only.
Start with ``member.py``; ``entry_log.py`` and ``ready.py`` are what a shell has to bring and do.
"""
