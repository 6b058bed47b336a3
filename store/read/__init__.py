"""Reading: a pull, a time, a key.

Imports ``log``, ``queues`` and ``index``. Start with ``message_reader.py``.
"""
