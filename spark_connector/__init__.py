"""Spark data source for RocketMQ topics. Source and sink come later; importing never needs Spark."""
