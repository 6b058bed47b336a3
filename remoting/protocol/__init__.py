"""Pure: what goes over the wire and onto the disk. Nothing here opens a socket or reads a clock.

Here stand the codec (``wire.py``: an annotated Record is its own), the numbers (``codes.py``) and
``.properties`` text. Imports nothing else of ours; the folders import these and each other
downwards. Start with ``wire.py``, then ``commands/``, the table.
"""
