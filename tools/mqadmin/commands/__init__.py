"""The commands of ``mqadmin``, a module per group; ``catalog.py`` names them all.

Imports ``client.admin`` and the shell around the commands. Start with ``topic.py``.
"""
