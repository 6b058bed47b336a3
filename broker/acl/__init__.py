"""Who may do what: accounts, rights, patterns of addresses, and the files that say so.

Imports the broker's ``config`` and what lies below; no other room of the broker. Start with
``permissions.py``, which decides; ``files.py`` reads, watches and writes.
"""
