"""Consume queues: where the messages of a queue lie in the commit log (consumequeue-index.md §1).

Imports ``disk`` and ``model``. Start with ``consume_queue.py``; ``consume_queues.py`` has all of
them.
"""
