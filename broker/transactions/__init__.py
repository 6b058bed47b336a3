"""Half messages, the ops that end them, and asking producers how theirs ended.

Imports ``sends``, ``state`` and ``stats``. Start with ``transactions.py``, which knows
without I/O what is undecided; ``transaction_log.py`` writes, ``transaction_check.py`` asks, as
``check_rules.py`` says.
"""
