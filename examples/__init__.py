"""Programs that show how to use aiorocketmq."""
