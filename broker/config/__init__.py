"""What a broker is told before it starts and while it runs, under the original's names.

Imports ``remoting``, ``daemon`` and the store's ``model``; every other room of the broker may
import it. Start with ``config.py``, where each property stands with its default.
"""
