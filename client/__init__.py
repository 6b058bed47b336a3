"""Producers, consumers and the administration client, all asyncio."""
