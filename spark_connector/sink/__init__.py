"""Writing DataFrames to topics: rows to batch bodies, chunks to queues, attempts and answers.

Imports ``access`` and ``client``. Start with ``sink.py``; ``chunks.py`` is pure.
"""
