"""The index: messages by key (consumequeue-index.md §3).

Imports ``disk`` and ``model``. Start with ``index_file.py``; ``indexing.py`` fills it behind the
writer, a step at a time.
"""
