"""Frames and the forms of their headers (``remoting.md`` §1.1, §1.2).

Pure; imports ``leaves``, ``fastjson``, ``wire`` and ``codes``. Start with ``frame.py``, then
``serialization.py``; ``templates.py`` and ``reply_frames.py`` write the usual answers.
"""
