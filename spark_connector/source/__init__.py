"""Reading topics, once or in micro-batches: which ranges, which task, pulls side by side.

Imports ``access`` and ``decode``. Start with ``batch.py`` and ``stream.py``; ``planner.py`` and
``pull_windows.py`` are pure.
"""
