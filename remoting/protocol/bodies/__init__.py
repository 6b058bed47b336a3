"""JSON bodies of requests and responses, and the files of ``config/``: a module per area, declared
as Records.

Java's collections keep their order here, so that a body can be written again as it was read:
``list[T]`` is a List, ``tuple[T, ...]`` a Set or an array, ``dict[K, V]`` a Map. A key that is
absent gets the original's default; fields without one are those without which a body has no
meaning.

Imports the protocol's ``wire``, ``message`` and ``fastjson``. Start with ``codec.py``.
"""
