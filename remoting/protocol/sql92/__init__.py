"""SQL92, the language of subscriptions: an expression to a function on the properties of a message.

Pure. A broker compiles what consumers bring (``broker/filter``), a consumer looks whether it is an
expression at all. Imports nothing but itself. Start with ``parser.py``, which is the grammar.
"""
