"""``mqadmin``: the original's command line. ``catalog.py`` lists the commands, ``commands/`` has
them.

Imports ``client.admin``, never a broker. Start with ``command.py``, which says how one is declared.
"""
