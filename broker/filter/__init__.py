"""Message filters: SQL92 expressions, their evaluation and the bloom filter in front of it."""
