"""What every daemon and program needs around its work: command line, logs, signals, small files.

Knows no broker and no name server; imports ``remoting``. Start with ``launch.py``.
"""
