"""What happens to a message between its request and the store, and until its sender may be told.

Imports ``state``, ``stats`` and ``config``. Start with ``placement.py`` (where a message really
goes), then ``durability.py`` (what its answer waits for).
"""
