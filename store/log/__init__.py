"""The commit log: every record of every topic, one after the other, and reading it from outside.

Imports ``disk``, ``model`` and the protocol's record. Start with ``commit_log.py``.
"""
