"""The store of a member of a DLedger group (dledger.md §5.2): committed records only are in queues
and index.

Imports ``log``, ``put``, ``replica`` and ``raft``; ``message_store.py`` has one ``RaftStore``
where ``enableDLegerCommitLog`` is set. Start with ``raft_store.py``.
"""
