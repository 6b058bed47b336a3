"""The message store: commit log, consume queues, index, recovery. Knows records, never requests."""
