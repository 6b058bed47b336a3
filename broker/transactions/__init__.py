"""Half messages, the ops that end them, and asking producers how theirs ended.

Imports ``sends``, ``state`` and ``stats``. Start with ``transactions.py``, which decides without
I/O; ``transaction_log.py`` writes, ``transaction_check.py`` asks.
"""
