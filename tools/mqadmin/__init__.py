"""mqadmin: cluster administration on the command line, a module per command group."""
