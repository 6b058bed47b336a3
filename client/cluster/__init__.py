"""What the clients of one cluster in a process share: connections, routes, name servers,
heartbeats.

Imports the errors and options of ``client`` and what lies below. Start with ``instance.py``.
"""
