"""Replication of the commit log: the protocol of both ends without I/O, and a slave's store.

Imports ``log``, ``queues``, ``put`` and ``recovery`` (queues from records). Start with
``replication.py``, which is the format; the sockets are in ``broker/replication``.
"""
