"""How far a group has got in its queues, and where a new one begins.

Imports ``cluster``. Start with ``offset_store.py``; ``local_offsets.py`` is for broadcasting.
"""
