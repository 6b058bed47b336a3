"""Work beside the writer: flushing, allocation ahead of it, the index, deleting, the scrub.

Imports ``log``, ``queues``, ``index`` and ``disk``. Start with ``flush.py``.
"""
