"""Opening a store after a stop of any kind (commitlog.md §11).

Imports every room that has files. Start with ``recovery.py``; ``opening.py`` decides whether a
directory may be opened at all.
"""
