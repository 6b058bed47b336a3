"""Filters of groups: SQL92 expressions on stored records, and the bloom filters of their bitmaps.

Pure; imports nothing of the broker. Start with ``sql92.py``; the language is in
``remoting/protocol/sql92``.
"""
