"""``mqdoctor``: what is wrong between this machine and a cluster, in plain lines.

Imports ``client.admin`` and what ``mqadmin`` is started with. Start with ``seen.py``, what was
looked at: ``looking.py`` fills it in, ``findings.py`` judges it without I/O, ``report.py`` prints.
"""
