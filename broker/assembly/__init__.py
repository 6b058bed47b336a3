"""The broker, put together from parts that say what they need.

Only ``opening``, ``daemon`` and who runs a whole broker imports it; it imports every folder of the
broker. Start with ``broker.py``.
"""
