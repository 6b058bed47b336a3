"""Registers the RocketMQ data source with Spark on start-up, where Spark looks for ``pyspark_*`` modules.

Source and sink come later. Importing this module never raises: Spark imports it whether it is used or not.
"""
