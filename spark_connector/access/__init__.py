"""How driver and executors reach a cluster: options, offsets, blocking connections.

Imports ``client`` and what lies below; ``source`` and ``sink`` import it. Start with
``options.py``.
"""
