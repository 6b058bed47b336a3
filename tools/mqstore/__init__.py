"""``mqstore``: a store directory without a broker: look, verify, repair, export.

Imports ``store``. Start with ``__main__.py``.
"""
