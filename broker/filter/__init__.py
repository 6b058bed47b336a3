"""SQL92: an expression to a function on the properties of a message, and bloom filters for groups.

Pure; imports nothing of the broker. Start with ``sql92.py``; ``parser.py`` is the grammar.
"""
