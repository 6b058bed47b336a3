"""Every parser of bytes that a peer, a disk or a user controls: one list, one target each.

``registry.py`` joins the rows of the rooms (``protocol.py``, ``records.py``, ``broker.py`` ...);
``tests/house/test_parsers.py`` holds it against the code, so that no parser is left out.
``examine.py`` says what is wrong with an input: another error than the typed ones, another answer
than the twin's, too much time, too much memory.

``python -m tests.fuzzing`` (``make fuzz``) runs campaigns: guided by the coverage of the Python
code where ``atheris`` is installed (``guided.py``), else by mutation alone (``mutation.py``, which
is also what the short run of ``make test`` uses: the same seed gives the same inputs). Inputs begin
with ``corpus/<target>/``, small files that our own encoders made (``seeds.py``); what a campaign
finds worth keeping stays in ``build/fuzz``.

Imports the product and other tests. Start with ``parsers.py``.
"""
