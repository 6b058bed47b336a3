"""Files: mapped ones and rows of them, holes, the checkpoint, the lock of a directory.

Imports the store's ``model`` only. Start with ``disk.py``: all that is asked of one,
and what tests replace; only ``system_disk.py`` asks the operating system.
"""
