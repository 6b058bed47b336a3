"""The handlers: a class per area, each with its own slice of the table of request codes.

Typed headers in, typed answers out; imports every room of the broker, and only ``assembly`` imports
it. Start with ``send.py`` and ``pull.py``, the hot ones.
"""
