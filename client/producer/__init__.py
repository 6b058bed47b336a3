"""Sending: plain and in batches, choice of the queue, attempts, transactions, traces.

Imports ``cluster``. Start with ``producer.py``; ``sending.py`` (frames and answers) and
``queue_choice.py`` are pure.
"""
