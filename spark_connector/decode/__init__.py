"""Records to Arrow columns, many at once.

Imports ``access`` (errors) and the record's scan; no Spark. Start with ``decode.py``;
``decode_slow.py`` is the plain description of what it does.
"""
