"""Handlers of pages, a file per area: ask ``cluster.py``, have ``model/`` make something of it,
fill a template.

Imports ``model`` and the modules beside it. Start with ``overview.py``.
"""
