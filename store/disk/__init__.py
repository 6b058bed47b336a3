"""Files: mapped ones and rows of them, holes, the checkpoint, the lock of a directory.

Imports the store's ``model`` only. Start with ``mapped_file.py``: ``Disk`` is all that is asked of
one, and what tests replace.
"""
