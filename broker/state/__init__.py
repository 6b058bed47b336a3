"""What a broker remembers: topics, groups, offsets, clients, locks, filters, and their files.

Imports ``config`` and ``filter``; processors and services change it, nothing here knows them. Start
with ``topics.py``; ``config_files.py`` keeps the tables in ``config/``.
"""
