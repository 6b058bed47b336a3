"""The message store: commit log, consume queues, index, recovery. Knows records, never requests.

``message_store.py`` joins the rooms behind ``put`` and ``get``; nothing below imports it. Imports
the protocol only. Start with that module, then ``log/``, ``queues/``, ``put/`` and ``read/``.
"""
