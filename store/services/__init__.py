"""Work beside the writer: flushing, room ahead of it, deleting, the scrub, repair.

Imports ``log``, ``queues``, ``index`` and ``disk``. Start with ``flush.py``.
"""
