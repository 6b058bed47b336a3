"""Consuming: groups, who reads which queue, pulling, handlers, offsets, retries.

Imports ``cluster``, ``offsets``, and ``producer`` for what is sent back. Start with
``push_consumer.py`` or ``pull_consumer.py``; ``rebalance.py`` and ``process_queue.py`` are pure.
"""
