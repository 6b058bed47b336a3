"""JSON as the original's library reads and writes it (fastjson 1.2; ``remoting.md`` §1.2, §1.9).

Pure; imports ``wire``. Start with ``reader.py``.
"""
