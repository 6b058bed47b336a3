"""Command line tools: ``mqadmin``, ``mqdoctor``, ``mqstore``, ``mqcluster``, ``mqhealth``,
``mqshutdown``.

May import every room; nothing imports them. Start with ``mqcluster.py``, a whole cluster in one
process.
"""
