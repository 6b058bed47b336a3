"""Delayed messages: each level's queue, what is due, and how far each level has been delivered.

Imports ``sends`` (where a message goes), ``state`` and ``stats``. Start with ``level.py``,
which decides, then ``schedule.py``, which delivers.
"""
