"""Command line tools: mqadmin, mqcluster, mqshutdown, mqstore."""
