"""A member of a group that elects its master: the service around what ``store/raft`` decides.

Has the members' own port, the connections to the others, the secret between them, and what answers
to senders wait for; imports ``store``, ``config`` and what lies below. Start with ``node.py``.
"""
