"""What pages show, made of what the cluster answers: no requests, no clock, no HTML.

Imports types of ``client/admin`` and ``remoting``. Start with ``overview.py``.
"""
